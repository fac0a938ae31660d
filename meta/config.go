package meta

// CheckTopicConfigs checks the configurations set on a topic.
func CheckTopicConfigs(configs map[string]string) error { return nil }
