package coord

// Record is one record of a coordinator's log. Its slices belong to the log once it was
// appended, and to the caller of Replay while loading: a machine that keeps
// a part copies it.
type Record struct {
	Key []byte
	// Value nil is a tombstone.
	Value           []byte
	TimestampMillis int64
}

// Request is one question to a machine, or, with token 0, a notice that nobody waits for.
type Request struct {
	// Token names whoever waits. The runtime draws it; it is unique for the machine's life.
	Token uint64
	// Body is one of the machine's request types, a pointer. It must not be changed afterwards.
	Body any
}

// Answer is what a machine says to the request of that token.
type Answer struct {
	Token uint64
	// Body is the answer type that belongs to the request's type.
	Body any
}

// Event is something that operators should know; the runtime logs it and the machine goes on.
type Event struct {
	Message string
	// Attributes are pairs of a name and a value, as slog takes them.
	Attributes []any
}

// Effects is what one step wants done. The records are appended as one batch. The
// answers leave when these records, and all that the same machine appended before, are
// committed; without records of their own they wait for those appended before, so that nobody reads
// what a crash could take back. The zero value is ready to use.
type Effects struct {
	Records []Record
	Answers []Answer
	Events  []Event
}

// Append adds a record to the step's batch.
func (e *Effects) Append(record Record) { e.Records = append(e.Records, record) }

// Answer answers the request of token with body. Token 0 is nobody: the answer is dropped.
func (e *Effects) Answer(token uint64, body any) {
	if token != 0 {
		e.Answers = append(e.Answers, Answer{Token: token, Body: body})
	}
}

// Event tells operators something.
func (e *Effects) Event(message string, attributes ...any) {
	e.Events = append(e.Events, Event{Message: message, Attributes: attributes})
}

// Reset empties the effects and keeps their memory.
func (e *Effects) Reset() {
	clear(e.Records)
	clear(e.Answers)
	clear(e.Events)
	e.Records, e.Answers, e.Events = e.Records[:0], e.Answers[:0], e.Events[:0]
}

// Machine is the pure state machine behind one partition of an internal topic. One goroutine
// at a time calls it. Its state changes at once, within Step; when an append fails
// the runtime throws the machine away, tells everybody who waits to try again, and
// loads a new one from the log.
type Machine interface {
	// Replay takes one record of the log while loading, in log order. An error is a record that
	// this machine cannot read; the partition stays unavailable until the log can be read.
	Replay(record Record) error
	// Loaded is called once, after the last Replay and before the first Step. Sessions start anew here.
	Loaded(nowMillis int64, effects *Effects)
	// Step takes one request. Each token is answered exactly once, in this step or in
	// a later Step or Tick.
	Step(nowMillis int64, request Request, effects *Effects)
	// Tick is called once the time that NextMillis named has come. It may come late, never early.
	Tick(nowMillis int64, effects *Effects)
	// NextMillis is when Tick wants to be called, in Unix milliseconds; math.MaxInt64 is never.
	NextMillis() int64
}
