package lint

import "fmt"

// An arrow says what a package may import of ours. An import goes along the
// data; against it only through an interface that the caller declares and
// server wires.
type arrow struct {
	from string   // pattern of the importing package
	to   []string // patterns of what it may import, besides its own tree
	why  string   // what to do instead of another import
}

// leaves are open to everybody above the engine; they import nothing of ours.
var leaves = []string{"record", "buffer", "meta"}

// everyone is a composition root's reach.
var everyone = []string{"net/...", "frontend/...", "broker/...", "coord/...", "group/...", "txn/...", "replica/...", "tier/...",
	"engine/...", "record/...", "buffer/...", "meta/...", "raftctl/...", "client/...", "perf/...", "server/...", "doctor/...", "dump/...", "lag/...", "internal/..."}

// arrows is the whole house; the first row whose pattern matches a package is
// its row, so narrow patterns come first. docs/architecture.md draws the same.
var arrows = []arrow{
	{"record/...", nil, "record is a leaf: bytes in, bytes out"},
	{"buffer/...", nil, "buffer is a leaf: it knows memory and nothing of what is kept there"},
	{"meta/...", nil, "meta is a leaf: an image, its deltas and the commands that change it"},
	{"engine/disk/...", []string{"engine/disk/..."}, "the disk seam is a leaf: it moves aligned bytes and knows no log"},
	{"engine/crashtest/...", []string{"engine/...", "replica", "record", "buffer"}, "crashes are explored in the engine with the replica that it will run, and nothing above"},
	{"engine/faulttest/...", []string{"engine/...", "replica", "record", "buffer"}, "disks fail under the engine with the replica that it will run, and nothing above"},
	{"engine/...", []string{"engine/...", "record", "buffer"}, "the engine knows no broker, replica or cluster: declare an interface in engine and let server wire it"},
	{"frontend", []string{"buffer"}, "the seam between network and protocols knows neither"},
	{"net/...", []string{"frontend", "buffer"}, "the network moves frames and knows no protocol: what it needs of one belongs in package frontend"},
	{"frontend/kafka/fetchsession/...", nil, "fetch sessions are numbers and names: who reads and encodes is frontend/kafka"},
	{"frontend/...", append([]string{"frontend", "broker", "group/..."}, leaves...), "a protocol reaches the log through package broker only; of coordinators it sees requests and answers"},
	{"broker/...", append([]string{"group", "txn", "coord", "replica", "engine"}, leaves...), "broker is protocol-free and does no I/O of its own"},
	{"group/...", append([]string{"coord"}, leaves...), "a coordinator reaches its log through coord"},
	{"txn/...", append([]string{"coord"}, leaves...), "a coordinator reaches its log through coord"},
	{"coord/...", leaves, "coord reaches a replicated log through its own Log interface"},
	{"replica/...", append([]string{"engine"}, leaves...), "one partition decides from events; who sends them is not its business"},
	{"tier/...", append([]string{"engine"}, leaves...), "tiered storage sits on the engine"},
	{"raftctl/...", []string{"meta", "buffer"}, "the control plane stands beside the data path: they meet in a meta.Image only"},
	{"client/...", []string{"record", "buffer"}, "the client is a library of its own: it shares the batch format and nothing else"},
	{"perf/commit/...", []string{"perf", "engine/...", "replica", "record", "buffer"}, "the storage engine is measured with the replica that a broker gives it, and nothing above"},
	{"perf/...", []string{"client", "record", "buffer", "engine/disk/..."}, "a load generator sees what a client and a disk see"},
	{"doctor/gather/...", []string{"doctor", "engine/disk/...", "engine/segment"}, "facts are gathered from the system and the disk seam; what a configuration or a broker says is handed in"},
	{"doctor/...", nil, "doctor judges facts that it is given"},
	{"lag/...", nil, "lag reckons with what it is given: who asks a broker is the command line"},
	{"dump/...", []string{"engine/segment", "engine/journal", "engine/plan", "replica", "record", "meta", "raftctl"}, "what is stored is read with the decoders of its owners, and no engine runs"},
	{"internal/cuttest/...", []string{"engine", "replica", "record", "internal/..."}, "power is cut under the engine with the replica that it will run, and nothing above"},
	{"internal/blackbox/...", []string{"record", "internal/..."}, "the real binary is met from outside: by clients, and by batches that nobody's client makes"},
	{"internal/...", []string{"internal/..."}, "internal helps everybody and knows nobody"},
	{"server/...", everyone, ""},
	{"cmd/...", everyone, ""},
	{"sim/...", everyone, ""},
	{"tools/...", everyone, ""},
}

// innards may be imported by everybody: checks that are free in production, names of fields, and the way to
// log what peers provoke.
var innards = []string{"internal/invariants", "internal/layout", "internal/ratelog"}

func arrowOf(name string) (arrow, bool) {
	for _, a := range arrows {
		if matches(a.from, name) {
			return a, true
		}
	}
	return arrow{}, false
}

// allows says whether an arrow leads to a package, in one step.
func (a arrow) allows(name string) bool {
	return matches(a.from, name) || matchesAny(a.to, name) || matchesAny(innards, name)
}

// below returns whether a package may reach another through any number of
// arrows: what its tests may import to set the scene.
func below(from arrow, to string) bool {
	seen := map[string]bool{}
	var reaches func(arrow) bool
	reaches = func(a arrow) bool {
		if a.allows(to) {
			return true
		}
		if seen[a.from] {
			return false
		}
		seen[a.from] = true
		for _, next := range arrows {
			if next.from != a.from && a.touches(next) && reaches(next) {
				return true
			}
		}
		return false
	}
	return reaches(from)
}

// touches says whether an arrow leads to packages of another row.
func (a arrow) touches(next arrow) bool {
	for _, pattern := range a.to {
		if pattern == next.from || pattern+"/..." == next.from {
			return true
		}
	}
	return false
}

// checkArrows holds every import of ours against the house. A package's own
// code follows the arrows one step; its tests may import all that lies below.
func checkArrows(t *Tree) (findings []Finding) {
	for _, f := range t.Go {
		row, known := arrowOf(f.Package)
		if !known {
			findings = append(findings, Finding{Path: f.Path, Line: t.line(f.Syntax.Name.Pos()),
				Breach: fmt.Sprintf("package %s has no place in the house", f.Package),
				Remedy: "add its row to arrows in internal/lint/arrows.go and to docs/architecture.md, or move it"})
			continue
		}
		for _, spec := range f.Syntax.Imports {
			name, ours := t.ours(importPath(spec))
			if !ours || row.allows(name) || f.Test && below(row, name) {
				continue
			}
			findings = append(findings, Finding{Path: f.Path, Line: t.line(spec.Pos()),
				Breach: fmt.Sprintf("%s must not import %s", f.Package, name),
				Remedy: row.why})
		}
	}
	return findings
}

// homes are libraries that only some packages may import: they shape whatever
// they touch.
var homes = []struct {
	library string // path prefix
	in      []string
	tests   bool // tests anywhere may
	why     string
}{
	{"go.etcd.io/raft/", []string{"raftctl/...", "sim/..."}, false, "consensus stands beside the data path, in raftctl"},
	{"go.etcd.io/bbolt", []string{"raftctl/..."}, false, "bbolt keeps the metadata log; everything else is stored through engine/disk"},
	{"github.com/panjf2000/gnet/", []string{"net/loop/..."}, false, "event loops live in net/loop"},
	{"github.com/pawelgaczynski/giouring", []string{"engine/disk/giouring"}, false, "the library's rings live in engine/disk/giouring, behind its build tag"},
	{"github.com/twmb/franz-go/pkg/kgo", []string{"cmd/...", "perf/...", "tools/..."}, true, "kgo is a client: the broker never calls itself"},
	{"github.com/twmb/franz-go/pkg/kadm", []string{"cmd/...", "tools/..."}, true, "kadm is a client: the broker never calls itself"},
	{"github.com/twmb/franz-go/pkg/kmsg", []string{"frontend/kafka/...", "group", "perf/...", "cmd/...", "tools/..."}, true, "Kafka's messages end in frontend/kafka, but for what is stored in Kafka's formats; inside, pass our own types"},
	{"github.com/twmb/franz-go/pkg/kerr", []string{"frontend/kafka/...", "perf/...", "cmd/...", "tools/..."}, true, "Kafka's error codes are set in frontend/kafka and nowhere else: return a sentinel"},
	{"github.com/spf13/cobra", []string{"cmd/..."}, false, "flags belong to the command line"},
	{"github.com/vbauerster/mpb/", []string{"cmd/..."}, false, "progress bars belong to the command line"},
	{"github.com/prometheus/", []string{"server/...", "frontend/admin/...", "cmd/..."}, true, "export figures as plain structs; frontend/admin and server turn them into metrics"},
	{"github.com/pelletier/go-toml/", []string{"server/...", "cmd/..."}, true, "configuration is read at the edge and handed in as a struct"},
}

// checkLibraries keeps the libraries with a strong shape in their rooms.
func checkLibraries(t *Tree) (findings []Finding) {
	for _, f := range t.Go {
		for _, spec := range f.Syntax.Imports {
			library := importPath(spec)
			for _, home := range homes {
				if !underLibrary(home.library, library) || matchesAny(home.in, f.Package) || f.Test && home.tests {
					continue
				}
				findings = append(findings, Finding{Path: f.Path, Line: t.line(spec.Pos()),
					Breach: fmt.Sprintf("%s must not import %s", f.Package, library),
					Remedy: home.why})
			}
		}
	}
	return findings
}

// underLibrary says whether an import path is the library or lies below it; a
// library that ends in a slash means all below.
func underLibrary(library, path string) bool {
	if len(path) < len(library) || path[:len(library)] != library {
		return false
	}
	return len(path) == len(library) || library[len(library)-1] == '/' || path[len(library)] == '/'
}
