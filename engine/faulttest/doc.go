// Package faulttest shows what the engine does when one operation of its disk fails: for each
// kind of file, each operation and each fault a small life of an engine on the crash disk, what was
// seen in it, and the page docs/faults.md that says so. Its test makes the page and
// compares; nobody else calls it. Everything of one trial belongs to the goroutine that runs it.
//
// A trial begins with a disk that a killed engine has left: logs with sealed segments, side files,
// a journal that is not merged. Then
//
//	at work    start ─▶ the fault begins ─▶ produce, roll, trim, read, delete, truncate, ... ─▶ it ends ─▶ produce
//	at a start the fault begins ─▶ start, open, read ─▶ it ends ─▶ start or open again ─▶ produce
//
// and behind both comes a power cut, a start without a fault, and the comparison of every log with what
// was acknowledged. That nothing acknowledged is lost and nothing is served that was not written holds
// in every trial, or it fails; what a trial may show beside that (who is refused, for how long, who
// is told) becomes the text of its cell.
package faulttest
