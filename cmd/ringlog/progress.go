package main

import (
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressInterval is how often a bar moves.
const progressInterval = 200 * time.Millisecond

// progress shows on a terminal how much of a known time has passed, and
// returns the function that takes the bar away. Elsewhere, and for a time that
// is not known, it shows nothing.
func (app *application) progress(name string, duration time.Duration) (done func()) {
	if !app.terminal || app.json || duration <= 0 {
		return func() {}
	}
	bars := mpb.New(mpb.WithOutput(app.errorOutput), mpb.WithWidth(48))
	bar := bars.AddBar(duration.Milliseconds(),
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO), decor.Name(" of "+duration.String())))
	start, stop := time.Now(), make(chan struct{})
	var moving sync.WaitGroup
	moving.Go(func() {
		again := time.NewTicker(progressInterval)
		defer again.Stop()
		for {
			select {
			case <-stop:
				return
			case <-again.C:
				// One short of the end: what ends the bar is the work, not the clock.
				bar.SetCurrent(min(time.Since(start).Milliseconds(), duration.Milliseconds()-1))
			}
		}
	})
	return func() {
		close(stop)
		moving.Wait()
		bar.Abort(true)
		bars.Wait()
	}
}
