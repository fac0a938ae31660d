package server

import (
	"strconv"
	"strings"

	"ringlog/meta"
)

// followLimits has the listener keep to the limits of connections that are set dynamically, until
// cancel.
func (s *Server) followLimits() (cancel func()) {
	return s.controller.Subscribe(meta.NewImage(), func(delta meta.Delta, image *meta.Image) {
		if len(delta.BrokerConfigsChanged) == 0 {
			return
		}
		defaults := s.config.defaults.WithDynamic(image, s.config.nodeID)
		total, perAddress := s.limit(defaults, "max.connections"), s.limit(defaults, "max.connections.per.ip")
		s.listener.SetLimits(total, perAddress)
		s.config.Logger.Info("limits of connections", "max.connections", total, "max.connections.per.ip", perAddress)
	})
}

// limit is what holds for a configuration that is a number above 0. One that a newer version stored
// and this one cannot read counts as not set.
func (s *Server) limit(defaults *meta.Defaults, name string) int {
	key, known := meta.BrokerConfigKey(name)
	if !known {
		panic("server: no broker configuration " + name)
	}
	number, err := strconv.Atoi(strings.TrimSpace(defaults.DescribeBroker(key).Value))
	if err != nil || number < 1 {
		return int(s.config.integer(name))
	}
	return number
}
