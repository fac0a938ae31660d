package meta

type commandKind uint8
type encoder struct{}

func (FormatCluster) kind() commandKind       { return 1 }
func (StartBroker) kind() commandKind         { return 2 }
func (CreateTopics) kind() commandKind        { return 3 }
func (DeleteTopics) kind() commandKind        { return 4 }
func (RemoveTombstones) kind() commandKind    { return 5 }
func (AllocateProducerIDs) kind() commandKind { return 6 }

func (FormatCluster) encode(*encoder)       {}
func (StartBroker) encode(*encoder)         {}
func (CreateTopics) encode(*encoder)        {}
func (DeleteTopics) encode(*encoder)        {}
func (RemoveTombstones) encode(*encoder)    {}
func (AllocateProducerIDs) encode(*encoder) {}
