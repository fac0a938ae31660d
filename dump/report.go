package dump

import (
	"fmt"
)

// Severity says what damage costs.
type Severity string

// The severities.
const (
	// Lost: records that were acknowledged, or may have been, cannot be read.
	Lost Severity = "lost"
	// Rebuilt: side state; a broker makes it anew and loses nothing but time.
	Rebuilt Severity = "rebuilt"
)

// Damage is bytes that are not what was written.
type Damage struct {
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	// Position is where in the file the damage begins, and Bytes how far it goes; 0 is not known.
	Position int64 `json:"position"`
	Bytes    int64 `json:"bytes,omitempty"`
	// Log is the label of the log, such as "orders-3"; FromOffset up to, not including,
	// ToOffset are the offsets that cannot be read. ToOffset 0: none, or not known.
	Log        string `json:"log,omitempty"`
	FromOffset int64  `json:"from_offset,omitempty"`
	ToOffset   int64  `json:"to_offset,omitempty"`
	What       string `json:"what"`
	Do         string `json:"do"`
}

// String says where and what, in one line.
func (d *Damage) String() string {
	where := fmt.Sprintf("%s at byte %d", d.File, d.Position)
	if d.Bytes > 0 {
		where += fmt.Sprintf(" to %d", d.Position+d.Bytes)
	}
	if d.Log != "" {
		where += ", log " + d.Log
	}
	if d.ToOffset > 0 {
		where += fmt.Sprintf(", offsets %d to %d", d.FromOffset, d.ToOffset-1)
	}
	return where + ": " + d.What
}

// Note is something worth knowing that is no damage: the torn end of a log, a file that
// nobody knows.
type Note struct {
	File string `json:"file"`
	Log  string `json:"log,omitempty"`
	What string `json:"what"`
}

// damagesMax bounds a report: who has more knows enough.
const damagesMax = 10_000

// Report is what Verify found.
type Report struct {
	Logs      int      `json:"logs"`
	Segments  int      `json:"segments"`
	Batches   int64    `json:"batches"`
	Records   int64    `json:"records"` // as the batches count them
	Indexes   int      `json:"indexes"`
	Snapshots int      `json:"snapshots"`
	Frames    int      `json:"frames"` // of journals, those that some segment may need
	Bytes     int64    `json:"bytes"`  // that were read
	Damages   []Damage `json:"damages"`
	Notes     []Note   `json:"notes"`
	// Cut: there was more damage than a report holds.
	Cut bool `json:"cut,omitempty"`
}

// Lost is how many damages cost records, or may.
func (r *Report) Lost() (count int) {
	for i := range r.Damages {
		if r.Damages[i].Severity == Lost {
			count++
		}
	}
	return count
}

func (r *Report) damage(d Damage) {
	if len(r.Damages) >= damagesMax {
		r.Cut = true
		return
	}
	r.Damages = append(r.Damages, d)
}

func (r *Report) note(file, log, format string, values ...any) {
	if len(r.Notes) < damagesMax {
		r.Notes = append(r.Notes, Note{File: file, Log: log, What: fmt.Sprintf(format, values...)})
	}
}

// What to do about damage.
const (
	doSealed = "the broker serves what lies before and behind, and answers reads of these offsets with an error: consumers stop before them until they are moved past, " +
		"or until the records up to there are deleted. To have them back, restore the file from a copy or another replica while the broker is stopped. Look at the disk: smartctl, dmesg"
	doRestore = "with another replica or a copy of the directory: restore it from there. Without: leave the directory as it is, copy it, and start the broker on the copy; " +
		"it serves what is intact and takes no appends to a log whose end is damaged. To go on without these records, delete the topic, or its records up to there, and produce again"
	doJournal   = "start the broker: it opens the logs that cannot be proven complete read-only, keeps what it found of them, and says which"
	doNothing   = "nothing: the broker rebuilds it when it starts or reads there"
	doMetadata  = "restore metadata.db from a copy of the directory; without it the broker does not start, and which log is which partition is in each log.meta (ringlog dump)"
	doHardware  = "look at the disk's own health (smartctl, dmesg): bytes that were written and flushed came back changed"
	doNewerTool = "use the version of ringlog that wrote it, or a later one"
)

// MetadataDamage is what is wrong with a metadata store.
func MetadataDamage(name string, err error) Damage {
	return Damage{Severity: Lost, File: name, What: err.Error(), Do: doMetadata}
}

// OwnerDamage is what is wrong with ringlog.properties.
func OwnerDamage(err error) Damage {
	return Damage{Severity: Lost, File: "ringlog.properties", What: err.Error(),
		Do: "restore it from a copy of the directory: without it a broker refuses the directory, and does not take it for a new one"}
}
