// Package replica decides for one partition: which produced batch gets an
// offset, which is a retry of one that is already in the log, how far readers
// may see, and when a producer hears that its batch is safe. Here it leads;
// following another broker is this package's second half and comes with it.
//
// A Partition is the engine.Replica of one log. The engine owns it and calls it
// on the shard's thread only; it has no clock, goroutine, lock or I/O of its
// own, so that the same code runs in a simulation. The composition root makes
// one per log, with New.
//
// # States
//
//	       Restore, Replay*
//	             │
//	             ▼
//	        ┌──────────┐ Opened: high watermark = durable end
//	        │recovering├─────────────────────┐
//	        └──────────┘                     ▼
//	                                     ┌─────────┐ Produce: refused, ErrNotLeader
//	                                     │ opened  │ Advanced: high watermark rises
//	                                     └────┬────┘
//	                               Lead(epoch)│
//	                                          ▼
//	Lead(higher epoch) ┌─────────────────────────────────────────────┐
//	     ┌────────────▶│                  leading                    │
//	     └─────────────┤ Produce: append and park, or refuse, or     │
//	                   │          (a retry) answer or park           │
//	                   │ Advanced: raise, then answer what it passed │
//	                   └──────────┬───────────────────────┬──────────┘
//	                  Failed(err) │                       │ Closing(err)
//	                              ▼                       ▼
//	                   ┌─────────────────────────────────────────────┐
//	                   │ ended: everything parked is answered with   │
//	                   │ err, and so is every produce from now on;   │
//	                   │ the first err stays                         │
//	                   └─────────────────────────────────────────────┘
//
// # A produce
//
//	                  ┌ no producer id ────────────────────────────┐
//	                  │                                            ▼
//	EventProduce ─────┤ next in sequence ────────────────▶ EffectAppend, parked
//	                  │                                            │ high watermark
//	                  │ retry of one of the last five              │ passes its last
//	                  │   below the high watermark ─────┐          │ offset
//	                  │   above it: parked ─────────────┼──────────┤
//	                  │                                 ▼          ▼
//	                  │                               EffectAnswer: base offset
//	                  │                               (of the original, for a retry)
//	                  └ older retry, gap, old epoch ──▶ EffectAnswer: error
//
// The high watermark is the smallest durable end among the in-sync replicas,
// which with one replica is the log's own (its written end where the topic is
// relaxed). It never goes back, but for a truncation below it, and is announced
// before the answers that it allows: whoever sees an answer and then fetches
// finds the records.
//
// # Producers
//
// The producer table is Kafka's idempotence (KIP-98, KIP-360), one entry per
// producer id, which remembers the epoch, the last sequence and the last five
// batches. It departs from Kafka's broker in three places, each of which a client
// already understands:
//
//   - A retry of a batch that is in the log but older than the last five is
//     answered ErrDuplicateSequence, which clients take as success without an
//     offset. Kafka's broker says OUT_OF_ORDER_SEQUENCE_NUMBER there, upon which
//     clients raise their epoch and send again what is in the log already.
//     The table says so only of sequences that it saw appended: after its state
//     began in the middle, what lies before is out of order, as in Kafka.
//   - An entry expires by the broker's clock since its last append, not by the timestamps
//     in its batches: a producer that copies old records keeps its state.
//   - The number of entries has a bound. The one that appended longest ago makes
//     room; if its producer comes back it is unknown, and any first sequence is
//     accepted from it.
package replica
