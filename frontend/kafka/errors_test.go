package kafka

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"ringlog/broker"
	"ringlog/record"
)

// withoutCode are errors that no client can be answered with.
var withoutCode = map[string]string{
	"record.ErrShort":              "only Next returns it, and validation turns it into ErrCorrupt",
	"record.ErrLength":             "a cause of ErrCorrupt",
	"record.ErrChecksum":           "a cause of ErrCorrupt",
	"record.ErrHeader":             "a cause of ErrCorrupt",
	"record.ErrNoBatch":            "wraps ErrInvalidRecord",
	"record.ErrManyBatches":        "wraps ErrInvalidRecord",
	"record.ErrRecordCount":        "wraps ErrInvalidRecord",
	"record.ErrControlBatch":       "wraps ErrInvalidRecord",
	"record.ErrProducerState":      "wraps ErrInvalidRecord",
	"record.ErrKeyMissing":         "wraps ErrInvalidRecord",
	"record.ErrDecompress":         "wraps ErrInvalidRecord",
	"group.ErrRecord":              "a coordinator does not load such a log",
	"meta.ErrStaleBroker":          "comes within ErrNoProducerIDs",
	"meta.ErrProducerIDsExhausted": "comes within ErrNoProducerIDs",
	"meta.ErrNotFormatted":         "a broker serves nobody before its cluster is formatted",
	"meta.ErrAlreadyFormatted":     "answers the start of a broker only",
	"meta.ErrEpochsExhausted":      "answers the start of a broker only",
	"meta.ErrCorrupt":              "a broker does not start on such metadata",
	"meta.ErrNewerFormat":          "a broker does not start on such metadata",
}

// Conventions 17: codes live in one table, and it has every error that can come out of the packages
// below. A new sentinel gets a row, or a reason why it needs none.
func TestEveryErrorHasACode(t *testing.T) {
	table, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, directory := range map[string]string{"broker": "../../broker", "group": "../../group", "record": "../../record", "meta": "../../meta"} {
		for _, sentinel := range sentinels(t, directory) {
			sentinel = name + "." + sentinel
			_, excused := withoutCode[sentinel]
			if listed := strings.Contains(string(table), "{"+sentinel+","); listed == excused {
				t.Errorf("%s: in the table of codes %t, excused from it %t; want one of them", sentinel, listed, excused)
			}
		}
	}
}

// sentinels returns the names of a package's exported error variables.
func sentinels(t *testing.T, directory string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), directory+"/"+entry.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("no sentinels in %s", directory)
	}
	return names
}

// Narrow errors win over those that they wrap or come with.
func TestTheNarrowestErrorGivesTheCode(t *testing.T) {
	for err, want := range map[error]int16{
		nil: 0,
		fmt.Errorf("%w: %w", broker.ErrLogOffline, broker.ErrNoSpace):             56,
		fmt.Errorf("%w: %w", broker.ErrNoProducerIDs, broker.ErrClosed):           14,
		fmt.Errorf("%w: %w", broker.ErrNotCoordinator, broker.ErrNotLeader):       16,
		fmt.Errorf("%w: %w", broker.ErrCoordinatorUnavailable, broker.ErrNoSpace): 15,
		&record.CorruptError{Cause: record.ErrUnsupportedMagic}:                   87,
		&record.CorruptError{Cause: record.ErrChecksum}:                           2,
		&record.InvalidError{Cause: record.ErrInvalidTimestamp}:                   32,
		fmt.Errorf("record 3: %w", record.ErrDecompress):                          87,
		fmt.Errorf("nobody has heard of this"):                                    -1,
	} {
		if got := code(err); got != want {
			t.Errorf("%v: code %d, want %d", err, got, want)
		}
	}
}

// What a client reads says what happened, not which package noticed, and is bounded.
func TestMessagesAreForPeople(t *testing.T) {
	if got := message(fmt.Errorf("%w: the batch has 9 bytes", broker.ErrBatchTooLarge)); got != "batch larger than max.message.bytes: the batch has 9 bytes" {
		t.Errorf("message %q", got)
	}
	if got := message(fmt.Errorf("%s", strings.Repeat("x", 5000))); len(got) != messageBytesMax {
		t.Errorf("a message of %d bytes", len(got))
	}
}
