package engine

import "fmt"

// offload runs f on a goroutine of its own while the job waits: what computes for long must
// not stand in the shard's way. f may use what the job gives it and nothing of the shard. It has ended when offload returns,
// also when the shard was over before. A Stepper runs it at once, so that a run replays.
func (j *job) offload(f func() error) (err error) {
	s := j.shard
	if s.engine.drive != nil {
		return f()
	}
	ended := make(chan struct{})
	finished := false
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("engine: %s: %v", j.name, cause)
			}
			close(ended)
			s.inbox.send(message{call: &call{ended: make(chan struct{}), run: func(*job) error {
				finished = true
				s.wakeJob(j)
				return nil
			}}})
		}()
		err = f()
	}()
	for !finished {
		if parkErr := j.park(); parkErr != nil {
			<-ended // it uses memory that the job is about to give back
			return parkErr
		}
	}
	return err
}
