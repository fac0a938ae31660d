package record

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatClientsSendIsAccepted(t *testing.T) {
	for _, codec := range allCodecs {
		for _, count := range []int{1, 2, 1000} {
			for _, options := range []BuilderOptions{
				{Codec: codec},
				{Codec: codec, Idempotent: true, ProducerID: 0},
				{Codec: codec, Idempotent: true, ProducerID: 9, ProducerEpoch: 4, BaseSequence: 55, Transactional: true},
			} {
				b := build(t, options, count)
				sent := bytes.Clone(b)
				rules := DefaultRules(noon)
				var v Validator
				got, err := v.Validate(b, &rules)
				if err != nil {
					t.Fatalf("%v, %d records: %v", codec, count, err)
				}
				if got.MaxTimestamp != noon || int(got.MaxTimestampDelta) != count-1 || len(got.Batch) != len(b) {
					t.Errorf("%v, %d records: result %+v", codec, count, got)
				}
				if want := int64(len(build(t, BuilderOptions{}, count)) - HeaderBytes); got.DecompressedBytes != want {
					t.Errorf("%v, %d records: %d bytes decompressed, want %d", codec, count, got.DecompressedBytes, want)
				}
				if !bytes.Equal(b, sent) {
					t.Errorf("%v: validation changed the batch", codec)
				}
			}
		}
	}
}

func TestWhatOlderAndSloppyClientsSendIsAcceptedAsKafkaDoes(t *testing.T) {
	record := func(hex ...byte) []byte { return append([]byte{byte(2 * len(hex))}, hex...) }
	good := build(t, BuilderOptions{}, 3)
	for name, b := range map[string]Batch{
		"record attributes":           wrap(CodecNone, 1, record(0x7f, 0, 0, 1, 1, 0)),
		"null as another negative":    wrap(CodecNone, 1, record(0, 0, 0, 9, 9, 0)),
		"a varint longer than needed": wrap(CodecNone, 1, record(0, 0x80, 0, 0x80, 0, 1, 1, 0)),
		"empty key, empty value":      wrap(CodecNone, 1, record(0, 0, 0, 0, 0, 0)),
		"header with a null value":    wrap(CodecNone, 1, record(0, 0, 0, 1, 1, 2, 0, 1)),
		"unused attribute bits":       changed(good, put16(attributesAt, 0x7f80)),
		"producer id of minus two":    changed(good, put64(producerIDAt, -2)),
		"sequence without producer":   changed(good, put32(baseSequenceAt, 0)),
		"no timestamp": func() Batch {
			var b Builder
			b.Reset(BuilderOptions{})
			b.Append(NoTimestamp, nil, []byte("v"))
			return finish(t, &b)
		}(),
	} {
		if err := validate(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsWrongWithTheFrameIsRefused(t *testing.T) {
	good := build(t, BuilderOptions{}, 3)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		bytes []byte
		want  error
	}{
		"null":                     {nil, ErrNoBatch},
		"empty":                    {[]byte{}, ErrNoBatch},
		"two batches":              {append(bytes.Clone(good), good...), ErrManyBatches},
		"a batch and some bytes":   {append(bytes.Clone(good), 1, 2, 3), ErrManyBatches},
		"magic 0":                  {changed(good, func(b Batch) { b[magicAt] = 0 }), ErrUnsupportedMagic},
		"magic 1":                  {changed(good, func(b Batch) { b[magicAt] = 1 }), ErrUnsupportedMagic},
		"magic 1, a small message": {changed(good, func(b Batch) { b[magicAt] = 1 })[:30], ErrUnsupportedMagic},
		"magic 3":                  {changed(good, func(b Batch) { b[magicAt] = 3 }), ErrCorrupt},
		"cut off":                  {good[:len(good)-1], ErrCorrupt},
		"cut off in the length":    {good[:11], ErrCorrupt},
		"length of zero":           {changed(good, put32(lengthAt, 0)), ErrCorrupt},
		"length of 2 GiB":          {changed(good, put32(lengthAt, math.MaxInt32)), ErrCorrupt},
		// Black-box case 24.
		"flipped bit": {flipped, ErrCorrupt},
	} {
		if err := validate(c.bytes); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestWhatIsWrongWithTheHeaderIsRefused(t *testing.T) {
	good := build(t, BuilderOptions{}, 3)
	idempotent := build(t, BuilderOptions{Idempotent: true, ProducerID: 7, ProducerEpoch: 1, BaseSequence: 5}, 3)
	for name, c := range map[string]struct {
		batch Batch
		want  error
	}{
		"no records":               {changed(good, put32(recordCountAt, 0)), ErrRecordCount},
		"negative records":         {changed(good, put32(recordCountAt, -3)), ErrRecordCount},
		"more than the offsets":    {changed(good, put32(recordCountAt, 4)), ErrRecordCount},
		"fewer than the offsets":   {changed(good, put32(recordCountAt, 2)), ErrRecordCount},
		"negative last delta":      {changed(good, put32(lastOffsetDeltaAt, -1)), ErrRecordCount},
		"count and delta wrap":     {changed(changed(good, put32(recordCountAt, math.MinInt32)), put32(lastOffsetDeltaAt, math.MaxInt32)), ErrRecordCount},
		"two billion records":      {changed(changed(good, put32(recordCountAt, math.MaxInt32)), put32(lastOffsetDeltaAt, math.MaxInt32-1)), ErrRecordCount},
		"LogAppendTime":            {changed(good, put16(attributesAt, bitLogAppendTime)), ErrInvalidTimestamp},
		"control (case 22)":        {changed(good, put16(attributesAt, bitControl)), ErrControlBatch},
		"delete horizon":           {changed(good, put16(attributesAt, bitDeleteHorizon)), ErrControlBatch},
		"codec 5":                  {changed(good, put16(attributesAt, 5)), ErrUnsupportedCompression},
		"codec 7":                  {changed(good, put16(attributesAt, 7)), ErrUnsupportedCompression},
		"producer, no sequence":    {changed(idempotent, put32(baseSequenceAt, -1)), ErrProducerState},
		"producer, no epoch":       {changed(idempotent, put16(producerEpochAt, -1)), ErrProducerState},
		"transaction, no producer": {changed(good, put16(attributesAt, bitTransactional)), ErrProducerState},
	} {
		if err := validate(c.batch); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// KIP-110 and black-box case 31: zstd only from Produce version 7 on.
func TestZstdIsRefusedForOldProduceVersions(t *testing.T) {
	rules := DefaultRules(noon)
	rules.ZstdRefused = true
	for _, codec := range allCodecs {
		var v Validator
		_, err := v.Validate(build(t, BuilderOptions{Codec: codec}, 3), &rules)
		if want := codec == CodecZstd; errors.Is(err, ErrUnsupportedCompression) != want || (err != nil) != want {
			t.Errorf("%v: got %v", codec, err)
		}
	}
}

// Black-box case 23 (KAFKA-13149): records that do not add up are refused,
// whatever codec hides them.
func TestWhatIsWrongWithARecordIsRefused(t *testing.T) {
	var (
		body = func(b ...byte) []byte { return append([]byte{byte(2 * len(b))}, b...) }
		ok0  = body(0, 0, 0, 1, 1, 0)
		ok1  = body(0, 0, 2, 1, 1, 0)
		join = func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
		huge = []byte{0xfe, 0xff, 0xff, 0xff, 0x0f} // 2^31-1
	)
	for name, c := range map[string]struct {
		count   int32
		payload []byte
		want    error
	}{
		"cut off in the last":           {2, join(ok0, ok1[:5]), ErrInvalidRecord},
		"one record fewer":              {2, ok0, ErrInvalidRecord},
		"one record more":               {1, join(ok0, ok1), ErrRecordCount},
		"trailing byte":                 {1, join(ok0, []byte{0}), ErrRecordCount},
		"offset deltas from 1":          {1, ok1, ErrRecordCount},
		"offset delta twice":            {2, join(ok0, ok0), ErrRecordCount},
		"offset delta skips":            {2, join(ok0, body(0, 0, 4, 1, 1, 0)), ErrRecordCount},
		"negative record length":        {1, []byte{1, 0, 0, 0, 1, 1, 0}, ErrInvalidRecord},
		"record length of 2 GiB":        {1, join(huge, ok0), ErrInvalidRecord},
		"record length of zero":         {1, join([]byte{0}, ok0), ErrInvalidRecord},
		"record length too long varint": {1, join([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}, ok0), ErrInvalidRecord},
		"record one byte short":         {1, join([]byte{2 * 5}, ok0[1:]), ErrInvalidRecord},
		"record one byte long":          {1, body(0, 0, 0, 1, 1, 0, 0), ErrInvalidRecord},
		"key past the record":           {1, body(0, 0, 0, 100, 1, 1, 0), ErrInvalidRecord},
		"key of 2 GiB":                  {1, body(append([]byte{0, 0, 0}, append(huge, 1, 0)...)...), ErrInvalidRecord},
		"value past the record":         {1, body(0, 0, 0, 1, 100, 1, 0), ErrInvalidRecord},
		"no header count":               {1, body(0, 0, 0, 1, 3, 7, 7), ErrInvalidRecord},
		"negative header count":         {1, body(0, 0, 0, 1, 1, 1), ErrInvalidRecord},
		"2 billion headers":             {1, body(append([]byte{0, 0, 0, 1, 1}, huge...)...), ErrInvalidRecord},
		"one header too many":           {1, body(0, 0, 0, 1, 1, 4, 0, 0, 0), ErrInvalidRecord},
		"header with a null key":        {1, body(0, 0, 0, 1, 1, 2, 1, 1), ErrInvalidRecord},
		"header value past the record":  {1, body(0, 0, 0, 1, 1, 2, 0, 8), ErrInvalidRecord},
		"timestamp of eleven bytes":     {1, body(0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 1, 1, 0), ErrInvalidRecord},
	} {
		for _, codec := range allCodecs {
			payload, err := Compress(nil, codec, c.payload)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(wrap(codec, c.count, payload)); !errors.Is(err, c.want) {
				t.Errorf("%s, %v: got %v, want %v", name, codec, err, c.want)
			}
		}
	}
}

// KIP-467: the answer names the records that offend.
func TestOffendingRecordsAreNamed(t *testing.T) {
	var b Builder
	b.Reset(BuilderOptions{Codec: CodecZstd})
	b.Append(noon, []byte("k"), nil)
	b.Append(noon, nil, nil)
	b.Append(noon, []byte("k"), nil)
	b.Append(noon, nil, nil)
	rules := DefaultRules(noon)
	rules.KeysRequired = true
	var v Validator
	_, err := v.Validate(finish(t, &b), &rules)
	var refused *InvalidError
	if !errors.As(err, &refused) || !errors.Is(err, ErrKeyMissing) || !errors.Is(err, ErrInvalidRecord) {
		t.Fatalf("got %v, want ErrKeyMissing", err)
	}
	const message = "a compacted topic cannot take a record without a key"
	want := []RecordError{{1, message}, {3, message}}
	if diff := cmp.Diff(want, refused.Records); diff != "" || refused.RecordsRefused != 2 {
		t.Errorf("%d records refused (-want +got):\n%s", refused.RecordsRefused, diff)
	}

	// One bad timestamp among them makes the answer INVALID_TIMESTAMP.
	b.Append(noon+rules.TimestampAfterMaxMillis+1, []byte("k"), nil)
	if _, err = v.Validate(finish(t, &b), &rules); !errors.Is(err, ErrInvalidTimestamp) {
		t.Errorf("got %v, want ErrInvalidTimestamp", err)
	}
	if errors.As(err, &refused); refused.RecordsRefused != 3 || refused.Records[2].Index != 4 {
		t.Errorf("refused %+v", refused)
	}
}

func TestTheListOfOffendingRecordsIsBounded(t *testing.T) {
	var b Builder
	b.Reset(BuilderOptions{})
	for range 10_000 {
		b.Append(noon, nil, nil)
	}
	rules := DefaultRules(noon)
	rules.KeysRequired = true
	var v Validator
	_, err := v.Validate(finish(t, &b), &rules)
	var refused *InvalidError
	if !errors.As(err, &refused) || refused.RecordsRefused != 10_000 || len(refused.Records) != recordErrorsMax {
		t.Errorf("got %v", err)
	}
	if len(err.Error()) > 200 {
		t.Errorf("the message has %d bytes", len(err.Error()))
	}
}

// KIP-937: message.timestamp.before.max.ms and message.timestamp.after.max.ms.
func TestTimestampBounds(t *testing.T) {
	const hour = 3_600_000
	for name, c := range map[string]struct {
		timestamp     int64
		before, after int64
		logAppendTime bool
		want          error
	}{
		"now":                                 {noon, 0, 0, false, nil},
		"a millisecond late":                  {noon - 1, 0, hour, false, ErrInvalidTimestamp},
		"a millisecond early":                 {noon + 1, hour, 0, false, ErrInvalidTimestamp},
		"at the bound before":                 {noon - hour, hour, hour, false, nil},
		"past the bound before":               {noon - hour - 1, hour, hour, false, ErrInvalidTimestamp},
		"at the bound after":                  {noon + hour, hour, hour, false, nil},
		"past the bound after":                {noon + hour + 1, hour, hour, false, ErrInvalidTimestamp},
		"none":                                {NoTimestamp, hour, hour, false, nil},
		"1970, nothing is too old":            {0, math.MaxInt64, hour, false, nil},
		"before 1970, nothing is too old":     {-5, math.MaxInt64, hour, false, nil},
		"the end of time, unbounded":          {math.MaxInt64, hour, math.MaxInt64, false, nil},
		"the end of time":                     {math.MaxInt64, math.MaxInt64, hour, false, ErrInvalidTimestamp},
		"out of bounds, but the topic stamps": {noon + 10*hour, hour, hour, true, nil},
	} {
		var b Builder
		b.Reset(BuilderOptions{})
		b.Append(c.timestamp, nil, nil)
		rules := Rules{NowMillis: noon, TimestampBeforeMaxMillis: c.before, TimestampAfterMaxMillis: c.after, LogAppendTime: c.logAppendTime}
		var v Validator
		if _, err := v.Validate(finish(t, &b), &rules); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestATimestampThatOverflowsIsRefused(t *testing.T) {
	for _, delta := range []int64{math.MaxInt64, math.MinInt64} {
		record := append([]byte{0}, appendVarlong(nil, delta)...)
		record = append(record, 0, 1, 1, 0)
		b := wrap(CodecNone, 1, append([]byte{byte(2 * len(record))}, record...))
		if delta < 0 {
			b = changed(b, put64(baseTimestampAt, -2))
		}
		rules := DefaultRules(noon)
		rules.LogAppendTime = true
		var v Validator
		if _, err := v.Validate(b, &rules); !errors.Is(err, ErrInvalidTimestamp) {
			t.Errorf("delta %d: got %v, want ErrInvalidTimestamp", delta, err)
		}
	}
}

// Kafka computes the maximum timestamp itself and stores that.
func TestTheMaximumTimestampOfTheHeaderIsNotBelieved(t *testing.T) {
	for _, codec := range allCodecs {
		var builder Builder
		builder.Reset(BuilderOptions{Codec: codec})
		for _, offset := range []int64{-50, -10, -30, -10} {
			builder.Append(noon+offset, nil, nil)
		}
		b := changed(finish(t, &builder), put64(maxTimestampAt, noon+999))
		rules := DefaultRules(noon)
		var v Validator
		got, err := v.Validate(b, &rules)
		if err != nil {
			t.Fatal(err)
		}
		if got.MaxTimestamp != noon-10 || got.MaxTimestampDelta != 1 {
			t.Errorf("%v: maximum %d at delta %d, want %d at 1", codec, got.MaxTimestamp, got.MaxTimestampDelta, noon-10)
		}
		got.Batch.SetMaxTimestamp(got.MaxTimestamp)
		if err := Check(b); err != nil || b.MaxTimestamp() != noon-10 {
			t.Errorf("%v: after the correction: %v, maximum %d", codec, err, b.MaxTimestamp())
		}
	}
}

// Decompression may stop half way and go on elsewhere.
func TestValidationStopsAtItsBudgetAndGoesOn(t *testing.T) {
	for _, codec := range allCodecs[1:] {
		var b Builder
		b.Reset(BuilderOptions{Codec: codec})
		for i := range 400 {
			size := 1000
			if i == 200 {
				size = 300_000 // a record larger than the budget, and than the window
			}
			b.Append(noon, nil, []byte(strings.Repeat("compressible ", size/13)))
		}
		batch := finish(t, &b)
		rules := DefaultRules(noon)
		var v Validator
		if err := v.Start(batch, &rules); err != nil {
			t.Fatal(err)
		}
		const budget = 64 << 10
		calls := 1
		for ; ; calls++ {
			done, err := v.Resume(budget)
			if err != nil {
				t.Fatalf("%v: %v", codec, err)
			}
			if done {
				break
			}
			if read := v.stream.readBytes(); read > int64(calls*budget) {
				t.Fatalf("%v: %d bytes read after %d calls", codec, read, calls)
			}
		}
		got := v.Result().DecompressedBytes
		if got < 690_000 || calls != int((got+budget-1)/budget) {
			t.Errorf("%v: %d bytes took %d calls", codec, got, calls)
		}
	}
}

func TestAnAbandonedValidationCanBeFollowedByAnother(t *testing.T) {
	rules := DefaultRules(noon)
	var v Validator
	for _, codec := range allCodecs {
		if err := v.Start(build(t, BuilderOptions{Codec: codec}, 1000), &rules); err != nil {
			t.Fatal(err)
		}
		if codec != CodecNone {
			if done, err := v.Resume(1000); done || err != nil {
				t.Fatalf("%v: done %v, %v", codec, done, err)
			}
		}
	}
	if _, err := v.Validate(build(t, BuilderOptions{}, 1), &rules); err != nil {
		t.Error(err)
	}
	v.Close()
	v.Close()
}

// A promise about speed is a test: nothing is allocated for a batch, of whatever codec
// and shape, once there are decompressors in the pools.
func TestValidatingAllocatesNothing(t *testing.T) {
	rules := DefaultRules(noon + 100_000)
	for _, codec := range allCodecs {
		for _, shape := range shapes {
			if raceDetector && codec != CodecNone {
				continue // the pools forget
			}
			var v Validator
			b := shaped(t, codec, shape.add)
			if n := testing.AllocsPerRun(100, func() {
				if _, err := v.Validate(b, &rules); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%v, %s: %v allocations", codec, shape.name, n)
			}
		}
	}
}
