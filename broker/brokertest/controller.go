package brokertest

import (
	"context"
	"sync"

	"ringlog/meta"
)

// Controller is a control plane of one process: commands are applied in the
// order in which they come, and a broker that follows hears of each. It
// outlives the brokers that are started on it. Safe for concurrent use.
type Controller struct {
	mu      sync.Mutex
	image   *meta.Image
	changed func(meta.Delta, *meta.Image) // called in order, before Propose returns; nil for nobody
	failing error
}

// NewController returns the controller of a cluster without brokers.
func NewController() *Controller {
	c := &Controller{image: meta.NewImage()}
	if _, err := c.Propose(context.Background(), meta.FormatCluster{ClusterID: "abcdefghijklmnopqrstuw"}); err != nil {
		panic(err)
	}
	return c
}

// Image returns the newest image.
func (c *Controller) Image() *meta.Image {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.image
}

// Propose implements broker.Controller.
func (c *Controller) Propose(_ context.Context, command meta.Command) (meta.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing != nil {
		return nil, c.failing
	}
	image, delta, result, err := meta.Apply(c.image, c.image.Index+1, command)
	if brokers := image.Brokers(); len(brokers) > 0 {
		image.ControllerID = brokers[0].ID // nobody reads this image yet
	}
	c.image = image
	if c.changed != nil {
		c.changed(delta, image)
	}
	return result, err
}

// follow has changed called for every command from now on; nil is nobody.
func (c *Controller) follow(changed func(meta.Delta, *meta.Image)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = changed
}

// Fail has every command refused with err from now on; nil ends that.
func (c *Controller) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = err
}
