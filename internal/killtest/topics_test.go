package killtest

import (
	"slices"
	"testing"
)

// topicScene knows a topic that is there with one record of two, one that was
// deleted, one that was asked for and one that was asked to go.
func topicScene() (*Topics, map[string]int64) {
	topics := NewTopics()
	for _, name := range []string{"kept", "deleted", "going"} {
		topics.AskCreate(name)
		topics.Created(name)
	}
	topics.Send("kept")
	topics.Acknowledge("kept")
	topics.Send("kept")
	topics.Send("deleted")
	topics.AskDelete("deleted")
	topics.Deleted("deleted")
	topics.AskDelete("going")
	topics.AskCreate("coming")
	return topics, map[string]int64{"kept": 1}
}

func TestHonestTopicsPass(t *testing.T) {
	for _, both := range []map[string]int64{{"kept": 1}, {"kept": 2, "going": 0, "coming": 0}} {
		topics, _ := topicScene()
		if anomalies := topics.Check(both); len(anomalies) > 0 {
			t.Errorf("%v: %v", both, anomalies)
		}
		// What was found once is known from then on: one of the two is wrong now.
		if anomalies := topics.Check(map[string]int64{"kept": 2, "coming": 0}); len(anomalies) != 1 {
			t.Errorf("%v, and then coming without going: %v", both, anomalies)
		}
	}
}

func TestEveryFaultOfTopicsIsFound(t *testing.T) {
	for kind, plant := range map[Kind]func(found map[string]int64){
		KindLost:    func(found map[string]int64) { delete(found, "kept") },
		KindShrunk:  func(found map[string]int64) { found["kept"] = 0 },
		KindForeign: func(found map[string]int64) { found["kept"] = 3 },
		KindBack:    func(found map[string]int64) { found["deleted"] = 0 },
	} {
		topics, found := topicScene()
		plant(found)
		anomalies := topics.Check(found)
		if !slices.ContainsFunc(anomalies, func(a Anomaly) bool { return a.Kind == kind }) {
			t.Errorf("%s is not found; the judge says: %v", kind, anomalies)
		}
	}
}
