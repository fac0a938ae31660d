package group

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"

	"ringlog/group/assign"
	"ringlog/meta"
)

// topicSet is one subscription that members of a group have, names and regular expression, and the topics
// that it comes to. Members with the same subscription share it: a large group has one or two.
type topicSet struct {
	key     string
	names   []string
	regex   *topicRegex // nil without
	members int
	// topics are the ids of those that exist, ascending. The slice is replaced, never changed.
	topics []meta.TopicID
}

// topicRegex is one regular expression of a group. It is stored with what it was found to match
// (ConsumerGroupRegularExpression), so that a coordinator that takes over goes on from the same subscription.
type topicRegex struct {
	text     string
	compiled *regexp.Regexp // nil: it is none, and matches nothing
	members  int
	// matches are the names of the topics that it matched when it was resolved, sorted.
	matches  []string
	resolved bool
}

// subscriptions are all that the members of a group have.
type subscriptions struct {
	sets    []*topicSet   // by key
	regexes []*topicRegex // by text
}

// set makes a member one of those with the subscription, and no longer one of those with its old one.
func (s *subscriptions) set(member *consumerMember, to *subscription) {
	if member.topics != nil && member.subscription.sameTopics(to) {
		return
	}
	if old := member.topics; old != nil {
		s.release(old)
		member.topics = nil
	}
	if len(to.names) > 0 || to.regex != "" {
		member.topics = s.take(to)
	}
}

func (s *subscriptions) take(of *subscription) *topicSet {
	key := subscriptionKey(of)
	at, found := slices.BinarySearchFunc(s.sets, key, func(set *topicSet, key string) int { return strings.Compare(set.key, key) })
	if !found {
		set := &topicSet{key: key, names: of.names}
		if of.regex != "" {
			set.regex = s.makeRegex(of.regex)
		}
		s.sets = slices.Insert(s.sets, at, set)
	}
	set := s.sets[at]
	set.members++
	if set.regex != nil {
		set.regex.members++
	}
	return set
}

func (s *subscriptions) release(set *topicSet) {
	set.members--
	if set.regex != nil {
		if set.regex.members--; set.regex.members == 0 {
			s.regexes = slices.DeleteFunc(s.regexes, func(regex *topicRegex) bool { return regex == set.regex })
		}
	}
	if set.members == 0 {
		s.sets = slices.DeleteFunc(s.sets, func(other *topicSet) bool { return other == set })
	}
}

// subscriptionKey is different for any two different subscriptions, whatever clients send for names.
func subscriptionKey(of *subscription) string {
	key := binary.AppendUvarint(nil, uint64(len(of.regex)))
	key = append(key, of.regex...)
	for _, name := range of.names {
		key = binary.AppendUvarint(key, uint64(len(name)))
		key = append(key, name...)
	}
	return string(key)
}

// makeRegex returns the regular expression of that text.
func (s *subscriptions) makeRegex(text string) *topicRegex {
	at, found := s.findRegex(text)
	if !found {
		// Only what checkRegex let pass comes from members; what does not compile comes from a log of
		// another version.
		compiled, _ := compileRegex(text)
		s.regexes = slices.Insert(s.regexes, at, &topicRegex{text: text, compiled: compiled})
	}
	return s.regexes[at]
}

func (s *subscriptions) findRegex(text string) (int, bool) {
	return slices.BinarySearchFunc(s.regexes, text, func(regex *topicRegex, text string) int { return strings.Compare(regex.text, text) })
}

// forgetUnused drops expressions that a log had and no member has.
func (s *subscriptions) forgetUnused() {
	s.regexes = slices.DeleteFunc(s.regexes, func(regex *topicRegex) bool { return regex.members == 0 })
}

// regexMembers is how many members have that regular expression.
func (s *subscriptions) regexMembers(text string) int {
	if at, found := s.findRegex(text); found {
		return s.regexes[at].members
	}
	return 0
}

// include says whether somebody subscribes to the topic.
func (s *subscriptions) include(topic string) bool {
	return slices.ContainsFunc(s.sets, func(set *topicSet) bool {
		_, named := slices.BinarySearch(set.names, topic)
		return named || set.regex != nil && set.regex.matched(topic)
	})
}

func (r *topicRegex) matched(topic string) bool {
	_, found := slices.BinarySearch(r.matches, topic)
	return found
}

// resolve holds the subscriptions against an image, regular expressions only when asked, and returns a hash of
// all topics that come out, which is another when one of them came, went or has more partitions. It
// calls changed for each regular expression that matches other topics than before.
func (s *subscriptions) resolve(image *meta.Image, regexes bool, changed func(*topicRegex)) int64 {
	for _, regex := range s.regexes {
		if !regexes && regex.resolved {
			continue
		}
		matches := regex.match(image)
		if !regex.resolved || !slices.Equal(matches, regex.matches) {
			regex.matches, regex.resolved = matches, true
			changed(regex)
		}
	}
	hash := fnv.New64a()
	for _, topic := range s.resolveSets(image) {
		var numbers [16 + 4]byte
		copy(numbers[:], topic.ID[:])
		binary.BigEndian.PutUint32(numbers[16:], uint32(topic.Partitions))
		hash.Write(numbers[:])
	}
	return int64(hash.Sum64())
}

// resolveSets fills in the topics of each set and returns those of all.
func (s *subscriptions) resolveSets(image *meta.Image) []assign.Topic {
	var all []assign.Topic
	for _, set := range s.sets {
		topics := make([]meta.TopicID, 0, len(set.names))
		add := func(name string) {
			if topic, ok := image.Topic(name); ok {
				topics = append(topics, topic.ID)
				all = append(all, assign.Topic{ID: topic.ID, Partitions: int32(len(topic.Partitions))})
			}
		}
		for _, name := range set.names {
			add(name)
		}
		if set.regex != nil {
			for _, name := range set.regex.matches {
				add(name)
			}
		}
		slices.SortFunc(topics, assign.CompareIDs)
		topics = slices.Compact(topics)
		if !slices.Equal(topics, set.topics) {
			set.topics = topics
		}
	}
	slices.SortFunc(all, func(a, b assign.Topic) int { return assign.CompareIDs(a.ID, b.ID) })
	return slices.Compact(all)
}

// match returns the names of the topics that the expression matches as a whole, internal ones included, as in Kafka: whoever
// does not want them says so in the expression, or drops them in the client.
func (r *topicRegex) match(image *meta.Image) []string {
	var matches []string
	if r.compiled == nil {
		return nil
	}
	for topic := range image.Topics() {
		if r.compiled.MatchString(topic.Name) {
			matches = append(matches, topic.Name)
		}
	}
	return matches
}

// regexBytesMax bounds a regular expression, which is compiled and run by the broker. RE2 runs in time
// linear in the topics' names whatever it is.
const regexBytesMax = 4096

// checkRegex says why a subscription is no regular expression, or nil.
func checkRegex(text string) error {
	if len(text) > regexBytesMax {
		return fmt.Errorf("%w: it is longer than %d bytes", ErrInvalidRegularExpression, regexBytesMax)
	}
	if _, err := compileRegex(text); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidRegularExpression, err)
	}
	return nil
}

// compileRegex compiles a subscription's expression so that it matches whole names. It is compiled as it came
// first: with the anchors around it, unbalanced parentheses could become sound.
func compileRegex(text string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(text); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + text + `)\z`)
}
