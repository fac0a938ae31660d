package brokertest

import (
	"context"
	"sync"

	"ringlog/meta"
)

// Controller is a control plane of one process: commands are applied in the
// order in which they come, and Changed hears of each. Safe for concurrent use.
type Controller struct {
	// Changed is called after each command, in order, before Propose returns.
	Changed func(meta.Delta, *meta.Image)

	mu    sync.Mutex
	image *meta.Image
}

// NewController returns the controller of a cluster with one broker.
func NewController(nodeID int32, host string, port int32) *Controller {
	c := &Controller{image: meta.NewImage()}
	ctx := context.Background()
	for _, command := range []meta.Command{
		meta.FormatCluster{ClusterID: "abcdefghijklmnopqrstuw"},
		meta.StartBroker{ID: nodeID, Host: host, Port: port, LogsEpochMax: -1},
	} {
		if _, err := c.Propose(ctx, command); err != nil {
			panic(err)
		}
	}
	c.image.ControllerID = nodeID // nobody reads it yet
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
	image, delta, result, err := meta.Apply(c.image, c.image.Index+1, command)
	c.image = image
	if c.Changed != nil {
		c.Changed(delta, image)
	}
	return result, err
}
