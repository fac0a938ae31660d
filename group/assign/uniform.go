package assign

// Uniform spreads the partitions evenly over the members and moves as few as that allows. Every
// member of a group with one subscription has the same number of partitions as any other, or one
// more. Where subscriptions differ, a partition lies so that its move to another subscriber would make
// nothing more even.
var Uniform Assignor = uniform{}

type uniform struct{}

func (uniform) Name() string { return "uniform" }

func (uniform) Assign(group *Group) []Partitions {
	t := newTable(group)
	if group.homogeneous() {
		t.spread()
	} else {
		newMixed(t).assign()
	}
	return t.result()
}

// spread gives every member the same number of partitions, and the rest, one each, first of all to those that
// own more than that number now. What a member gives up is thereby the least possible: no
// other even assignment leaves more partitions where they are.
func (t *table) spread() {
	if len(t.load) == 0 {
		return
	}
	least := int32(len(t.owner) / len(t.load))
	extra := len(t.owner) % len(t.load)
	t.retain(func(member int32) bool {
		if t.load[member] < least {
			return true
		}
		if t.load[member] == least && extra > 0 {
			extra--
			return true
		}
		return false
	})
	free := int32(0)
	take := func(member int32) {
		for t.owner[free] != nobody {
			free++
		}
		t.give(free, member)
	}
	for m := range t.load {
		for t.load[m] < least {
			take(int32(m))
		}
	}
	for m := 0; extra > 0; m++ {
		if t.load[m] == least {
			take(int32(m))
			extra--
		}
	}
}
