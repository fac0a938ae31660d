package engine

// Ended is closed when the engine is over: after Close, or when the disk itself
// has failed.
func (e *Engine) Ended() <-chan struct{} { return e.done }

// Err returns why the engine ended by itself; nil while it runs and after Close.
func (e *Engine) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}
