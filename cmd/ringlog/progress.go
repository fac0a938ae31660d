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

// bytesProgress is a bar over bytes.
type bytesProgress struct {
	bars *mpb.Progress // nil: nobody watches
	bar  *mpb.Bar
	name string
}

// bytesProgress returns a bar that shows itself on a terminal with the first set.
func (app *application) bytesProgress(name string) *bytesProgress {
	p := &bytesProgress{name: name}
	if app.terminal && !app.json {
		p.bars = mpb.New(mpb.WithOutput(app.errorOutput), mpb.WithWidth(48), mpb.WithRefreshRate(progressInterval))
	}
	return p
}

// set says how many bytes of how many are done.
func (p *bytesProgress) set(done, total int64) {
	if p.bars == nil || total == 0 {
		return
	}
	if p.bar == nil {
		p.bar = p.bars.AddBar(total, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(p.name+" ")), mpb.AppendDecorators(decor.Counters(decor.SizeB1024(0), "% .1f of % .1f")))
	}
	p.bar.SetCurrent(min(done, total-1)) // what ends the bar is the work
}

// done takes the bar away.
func (p *bytesProgress) done() {
	if p.bar != nil {
		p.bar.Abort(true)
	}
	if p.bars != nil {
		p.bars.Wait()
	}
}
