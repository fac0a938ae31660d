package engine

import (
	"context"
	"sync"
	"testing"
)

// Who stops waiting for an answer gets an error and nothing else: the job goes on alone, and what it
// writes is nobody's. (The race detector sees it when the answer is read all the same.)
func TestAnAnswerThatIsNotWaitedForIsNotRead(t *testing.T) {
	e, logs := threaded(t, 1, 1, 0)
	id := logs[0].id
	for range 300 {
		ctx, giveUp := context.WithCancel(context.Background())
		var asking sync.WaitGroup
		ask := func(question func() (nothing bool, err error)) {
			asking.Go(func() {
				if nothing, err := question(); err != nil && !nothing {
					t.Errorf("an error, %v, and an answer beside it", err)
				}
			})
		}
		ask(func() (bool, error) {
			status, err := e.Status(ctx, id)
			return status.Frontiers == Frontiers{} && status.Segments == nil, err
		})
		ask(func() (bool, error) {
			epoch, end, err := e.EpochEnd(ctx, id, 1)
			return epoch == -1 && end == -1, err
		})
		ask(func() (bool, error) {
			snapshot, err := e.ReplicaSnapshot(ctx, id)
			return snapshot == nil, err
		})
		ask(func() (bool, error) {
			offset, ok, err := e.TimeHint(ctx, id, 1)
			return offset == 0 && !ok, err
		})
		ask(func() (bool, error) {
			offset, ok, err := e.MaxTimestampHint(ctx, id)
			return offset == 0 && !ok, err
		})
		giveUp()
		asking.Wait()
	}
}
