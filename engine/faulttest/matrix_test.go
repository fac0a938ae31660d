package faulttest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what was seen into the page instead of comparing")

const page = "../../docs/faults.md"

// Every operation on every kind of file fails in every way that it can, one at a time: nothing that was
// acknowledged is lost, nothing is served that was not written, nobody waits for ever, and what is seen of
// it is what docs/faults.md says.
func TestMatrix(t *testing.T) {
	p := newPools()
	begin, err := newBase(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	cells := trials()
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			p := newPools()
			for {
				n := int(next.Add(1)) - 1
				if n >= len(cells) {
					break
				}
				c := cells[n]
				mu.Lock()
				mine := &base{disk: begin.disk.Kill(uint64(n)), subjects: copySubjects(begin.subjects)}
				mu.Unlock()
				o, err := c.trial.run(p, mine, uint64(n))
				if err != nil {
					t.Errorf("%s: %v", &c.trial, err)
					*p = *newPools()
				}
				if o.met {
					c.text, c.sentence = o.text(), o.firstSentence()
				}
			}
			if err := p.close(); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		return
	}
	met := 0
	for _, c := range cells {
		if c.text != "" {
			met++
		}
	}
	t.Logf("%d trials, in %d of which the fault has met something", len(cells), met)
	comparePage(t, render(cells))
}

// comparePage holds the tables against the page, or writes them there.
func comparePage(t *testing.T, tables string) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), pageBegin)
	old, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the tables: %s and %s", page, pageBegin, pageEnd)
	}
	tables += "\n"
	if *rewrite {
		if err := os.WriteFile(page, []byte(before+pageBegin+"\n"+tables+pageEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if difference := firstDifference(old, "\n"+tables); difference != "" {
		t.Errorf("%s does not say what is seen: %s\nif that is right: go test ./engine/faulttest -rewrite", page, difference)
	}
}

// firstDifference describes the first line in which two texts differ; "" when none does.
func firstDifference(page, seen string) string {
	was, is := strings.Split(page, "\n"), strings.Split(seen, "\n")
	for i := range max(len(was), len(is)) {
		var a, b string
		if i < len(was) {
			a = was[i]
		}
		if i < len(is) {
			b = is[i]
		}
		if a != b {
			return fmt.Sprintf("\nthe page: %s\n    seen: %s", a, b)
		}
	}
	return ""
}
