package layout

import (
	"errors"
	"strings"
	"testing"
)

func TestEveryByteIsShown(t *testing.T) {
	data := []byte("RLxx\x01\x00\x00\x00\x00\x00\xff")
	var screen strings.Builder
	err := Write(&screen, 4096, data, []Field{
		{Name: "magic", At: 0, Bytes: 4, Value: Text(data[:4])},
		{Name: "version", At: 4, Bytes: 2, Value: "1"},
		{Name: "zero", At: 6, Bytes: 4, Value: Zeros(data[6:10])},
	})
	const wanted = `        4096  52 4c 78 78                                      magic       "RLxx"
        4100  01 00                                            version     1
        4102  00 00 00 00                                      zero        zeros
        4106  ff                                               (no field)
`
	if got := strings.ReplaceAll(screen.String(), "magic       ", "magic       "); err != nil || strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(wanted), " ") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestALongFieldIsCut(t *testing.T) {
	data := make([]byte, 1000)
	var screen strings.Builder
	if err := Write(&screen, 0, data, []Field{{Name: "records", Bytes: 1000}}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(screen.String(), "\n"); lines != linesMax+1 || !strings.Contains(screen.String(), "… 872 more bytes") {
		t.Errorf("%d lines:\n%s", lines, screen.String())
	}
}

// TestFieldsBehindTheEnd: what a damaged length claims is shown as far as it is there.
func TestFieldsBehindTheEnd(t *testing.T) {
	var screen strings.Builder
	if err := Write(&screen, 0, []byte{1}, []Field{{Name: "a", Bytes: 8}, {Name: "b", At: 8, Bytes: 8}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(screen.String(), "01") || strings.Count(screen.String(), "\n") != 2 {
		t.Errorf("\n%s", screen.String())
	}
}

type broken struct{}

var errBroken = errors.New("no paper")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestAFailedWriteIsReturned(t *testing.T) {
	if err := Write(broken{}, 0, []byte{1, 2}, nil); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestTimesAreReadable(t *testing.T) {
	if got := Millis(1700000000123); got != "1700000000123 (2023-11-14T22:13:20.123Z)" {
		t.Error(got)
	}
	if got := Millis(-1); got != "-1" {
		t.Error(got)
	}
}
