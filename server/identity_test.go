package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlog/meta"
	"ringlog/raftctl"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADirectoryBelongsToOneBroker(t *testing.T) {
	dir := t.TempDir()
	s := start(t, testConfig(t, dir))
	stop(t, s)
	other := testConfig(t, dir)
	other.Broker = map[string]string{"node.id": "2"}
	if _, err := Start(t.Context(), other); !errors.Is(err, ErrWrongNode) || !strings.Contains(err.Error(), "node.id=1") {
		t.Errorf("broker 2 on the directory of broker 1: %v", err)
	}
}

// Scenario 30: what looks absent is never taken for empty.
func TestMissingMetadataIsALossAndNoNewCluster(t *testing.T) {
	dir := t.TempDir()
	stop(t, start(t, testConfig(t, dir)))
	properties, database := filepath.Join(dir, propertiesName), filepath.Join(dir, "metadata.db")

	saved, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(database); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), testConfig(t, dir)); !errors.Is(err, raftctl.ErrMissing) {
		t.Errorf("without metadata.db: %v", err)
	}
	write(t, database, "")
	if _, err := Start(t.Context(), testConfig(t, dir)); !errors.Is(err, raftctl.ErrCorrupt) {
		t.Errorf("with an empty metadata.db: %v", err)
	}
	write(t, database, string(saved))
	text, err := os.ReadFile(properties)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(properties); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), testConfig(t, dir)); !errors.Is(err, ErrNotOurs) {
		t.Errorf("without ringlog.properties: %v", err)
	}
	write(t, properties, strings.Replace(string(text), "cluster.id=", "cluster.id=x", 1))
	if _, err := Start(t.Context(), testConfig(t, dir)); !errors.Is(err, raftctl.ErrWrongCluster) {
		t.Errorf("with the properties of another cluster: %v", err)
	}
	write(t, properties, string(text))
	start(t, testConfig(t, dir))
}

// A new directory may be abandoned between any two of the steps that format it.
func TestFormattingGoesOnWhereItWasInterrupted(t *testing.T) {
	ready := t.TempDir()
	stop(t, start(t, testConfig(t, ready)))
	text, err := os.ReadFile(filepath.Join(ready, propertiesName))
	if err != nil {
		t.Fatal(err)
	}
	formatting := strings.Replace(string(text), "state=formatted", "state=formatting", 1)
	database, err := os.ReadFile(filepath.Join(ready, "metadata.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]map[string]string{
		"nothing but the lock":        {lockName: "123\n"},
		"properties not renamed":      {lockName: "123\n", propertiesName + ".new": "format.ver"},
		"no metadata log yet":         {propertiesName: formatting},
		"metadata log not renamed":    {propertiesName: formatting, "metadata.db.new": "half"},
		"metadata log made, not told": {propertiesName: formatting, "metadata.db": string(database)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range files {
				write(t, filepath.Join(dir, file), content)
			}
			s := start(t, testConfig(t, dir))
			if id, err := openIdentity(dir, 1, randomness); err != nil || !id.formatted || id.clusterID != s.ClusterID() {
				t.Errorf("afterwards the directory says %+v, %v", id, err)
			}
		})
	}
}

func TestPropertiesAreReadStrictly(t *testing.T) {
	sound := identity{clusterID: "c", nodeID: 3, directoryID: [16]byte{1}, formatted: true}
	if got, err := parseIdentity(sound.text()); err != nil || got != sound {
		t.Errorf("what was written is read as %+v, %v", got, err)
	}
	for name, test := range map[string]struct {
		old, new string
		want     error
	}{
		"newer":           {"format.version=1", "format.version=2", meta.ErrNewerFormat},
		"no version":      {"format.version=1", "", ErrBadProperties},
		"no cluster":      {"cluster.id=c", "", ErrBadProperties},
		"no node":         {"node.id=3", "node.id=", ErrBadProperties},
		"short directory": {"directory.id=01", "directory.id=", ErrBadProperties},
		"unknown state":   {"state=formatted", "state=maybe", ErrBadProperties},
		"cut off":         {"state=formatted", "sta", ErrBadProperties},
	} {
		text := strings.Replace(sound.text(), test.old, test.new, 1)
		if _, err := parseIdentity(text); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}
