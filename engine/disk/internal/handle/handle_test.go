package handle

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlog/engine/disk"
)

// A number names what it was given for and, once removed, nothing, also after
// its place was taken again.
func TestTableAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table[int]
		model := map[disk.File]int{}
		var removed []disk.File
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			live := make([]disk.File, 0, len(model))
			for file := range model {
				live = append(live, file)
			}
			slices.Sort(live)
			if len(live) > 0 && rapid.Bool().Draw(t, "remove") {
				file := rapid.SampledFrom(live).Draw(t, "file")
				value, ok := table.Remove(file)
				if !ok || value != model[file] {
					t.Fatalf("removing %d gave %d, %v", file, value, ok)
				}
				delete(model, file)
				removed = append(removed, file)
			} else {
				file, ok := table.Add(i)
				if _, taken := model[file]; !ok || taken || file <= 0 {
					t.Fatalf("file %d, %v is taken: %v", file, ok, taken)
				}
				model[file] = i
			}
			for file, want := range model {
				if got, ok := table.Get(file); !ok || got != want {
					t.Fatalf("file %d is %d, %v, want %d", file, got, ok, want)
				}
			}
			for _, file := range removed {
				if _, ok := table.Get(file); ok && model[file] == 0 {
					t.Fatalf("removed file %d still names something", file)
				}
			}
			count := 0
			table.All(func(file disk.File, value int) {
				count++
				if model[file] != value {
					t.Fatalf("All shows %d as %d", file, value)
				}
			})
			if count != len(model) || table.Len() != len(model) {
				t.Fatalf("%d files, Len %d, want %d", count, table.Len(), len(model))
			}
		}
	})
}

func TestNumbersNeverGivenOutNameNothing(t *testing.T) {
	var table Table[int]
	table.Add(1)
	for _, file := range []disk.File{0, -1, 2, 1 << 20, 1<<31 - 1} {
		if _, ok := table.Get(file); ok {
			t.Errorf("file %d names something", file)
		}
		if _, ok := table.Remove(file); ok {
			t.Errorf("file %d was removed", file)
		}
	}
}
