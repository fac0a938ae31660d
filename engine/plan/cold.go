package plan

import "time"

// Cold is what decides how much is read from disk for consumers behind the tail, beside appends.
type Cold struct {
	// SinceAppend is how long ago the last append came.
	SinceAppend time.Duration
}

const (
	// coldDepthBytes is what keeps the device busy: eight pieces.
	coldDepthBytes = 8 * PieceBytes
	// coldDepthBeside is for a time in which appends come: what is in flight stands before their flushes in the
	// device's one queue. (Measured 2026-11 at 100 MB/s beside a scan: commits have a p50 of 4.7 to
	// 5.2 ms with 2 MiB in flight, 1.3 with 512 KiB, and the scan is as fast: 1,191 and 1,365 MB/s. Alone it is
	// not told apart from noise, so there it keeps the whole depth.)
	coldDepthBeside = 2 * PieceBytes
	// coldBeside is how long after an append others are expected.
	coldBeside = 100 * time.Millisecond
)

// DepthBytes is how much may be in flight at a time.
func (c Cold) DepthBytes() int64 {
	if c.SinceAppend < coldBeside {
		return coldDepthBeside
	}
	return coldDepthBytes
}

// StepBytes is how much of a read is sent at a time: two of them fill the depth.
func (c Cold) StepBytes() int64 { return c.DepthBytes() / 2 }
