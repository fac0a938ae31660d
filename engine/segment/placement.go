package segment

import "encoding/binary"

// PlacementName is the name of the placement table, beside the log directories.
const PlacementName = "placement"

const placementVersion = 1

// Placement says on which shard each log lives. Nothing but speed depends on it: any
// shard can recover any log.
//
//	2 B  number of shards
//	4 B  number of logs, then of each, in order of the ids:
//	       16 B log id · 2 B shard
type Placement struct {
	Shards int
	Logs   []Placed
}

// Placed is one log of a Placement.
type Placed struct {
	LogID [16]byte
	Shard int
}

const placedBytes = 16 + 2

// Encode returns the file.
func (p *Placement) Encode() []byte {
	body := make([]byte, 0, 6+len(p.Logs)*placedBytes)
	body = binary.LittleEndian.AppendUint16(body, uint16(p.Shards))
	body = appendCount(body, len(p.Logs))
	for i := range p.Logs {
		body = append(body, p.Logs[i].LogID[:]...)
		body = binary.LittleEndian.AppendUint16(body, uint16(p.Logs[i].Shard))
	}
	return AppendStored(nil, KindPlacement, placementVersion, body)
}

// DecodePlacement reads what Encode wrote. The error is ErrNewerFormat or a
// *CorruptError.
func DecodePlacement(file []byte) (*Placement, error) {
	c, err := openStored(file, KindPlacement, placementVersion)
	if err != nil {
		return nil, err
	}
	return decodePlacement(&c)
}

func decodePlacement(c *cursor) (*Placement, error) {
	p := &Placement{Shards: int(c.uint16("shards"))}
	p.Logs = make([]Placed, c.count("logs", placedBytes))
	for i := range p.Logs {
		c.element("log", i)
		p.Logs[i].LogID = c.id("log id")
		if p.Logs[i].Shard = int(c.uint16("shard")); p.Logs[i].Shard >= p.Shards {
			c.fail("a log lies on a shard that there is not")
		}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return p, nil
}
