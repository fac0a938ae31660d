package kafka

// ByAPI calls each for every API that is served, in the order of their keys.
func (m *Metrics) ByAPI(each func(name string, requests, errors int64)) {
	for key, row := range registry {
		if row != nil {
			each(row.key.Name(), m.Requests[key].Load(), m.Errors[key].Load())
		}
	}
}
