// Package fetchsession remembers what a consumer fetches, so that its next Fetch names only
// what has changed, and is answered only with what has changed (KIP-227). A consumer of
// 1,000 idle partitions then sends and gets some 30 bytes instead of 60 KB.
//
//	full fetch, epoch 0 ──Create──▶ session ──Begin(epoch 1)──▶ partitions to read
//	                                  ▲  │                            │
//	                                  │  └──────── Answer ◀───────────┘ what has to be told
//	                                  └─ Begin(epoch 2), ... until End, or until it is evicted
//
// It decides and does nothing else: time and chance are arguments, and there is no lock.
// frontend/kafka owns a [Cache] and calls it under one.
//
// A session belongs to no connection, as in Kafka: the epoch, which rises with every
// request, is what keeps two clients from sharing one by mistake.
package fetchsession
