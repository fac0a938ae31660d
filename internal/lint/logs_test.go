package lint

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// TestLogMessagesAreListed makes the list of docs/logs.md anew with -rewrite, as golden files are.
func TestLogMessagesAreListed(t *testing.T) {
	root := moduleRoot(t)
	tree, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	page := tree.file(logsPage)
	if page == nil {
		t.Fatal(logsPage + " is missing")
	}
	made := withLogMessages(string(page.Source), tree)
	if made == string(page.Source) {
		return
	}
	if flag.Lookup("rewrite").Value.String() != "true" {
		t.Fatalf("%s does not list the messages as the source has them: run this test with -rewrite", logsPage)
	}
	if err := os.WriteFile(filepath.Join(root, logsPage), []byte(made), 0o644); err != nil {
		t.Fatal(err)
	}
}
