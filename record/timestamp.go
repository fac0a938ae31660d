package record

// FindTimestamp returns offset and timestamp of the first record of batch whose
// timestamp is at least millis: what ListOffsets by time asks for (KIP-79). The
// answer is a record inside the batch, not the batch. With LogAppendTime all
// records have the batch's maximum timestamp, so the first offset answers. ok is
// false when there is none. An error (see Reader.Err) means stored bytes that
// cannot be read.
func FindTimestamp(batch Batch, millis int64) (offset, timestamp int64, ok bool, err error) {
	if batch.LogAppendTime() {
		return batch.BaseOffset(), batch.MaxTimestamp(), batch.MaxTimestamp() >= millis, nil
	}
	if batch.MaxTimestamp() < millis {
		return 0, 0, false, nil // spares the decompression
	}
	var r Reader
	r.Reset(batch)
	defer r.Close()
	for r.Next() {
		if record := r.Record(); record.Timestamp >= millis {
			return record.Offset, record.Timestamp, true, nil
		}
	}
	return 0, 0, false, r.Err()
}

// MaxTimestamp returns offset and timestamp of the first record of batch that
// carries its largest timestamp: what ListOffsets asks for with -3 (KIP-734).
// With LogAppendTime that is the first offset. ok is false when no record has a
// timestamp. An error (see Reader.Err) means stored bytes that cannot be read.
func MaxTimestamp(batch Batch) (offset, timestamp int64, ok bool, err error) {
	if batch.LogAppendTime() {
		return batch.BaseOffset(), batch.MaxTimestamp(), true, nil
	}
	var r Reader
	r.Reset(batch)
	defer r.Close()
	timestamp = NoTimestamp
	for r.Next() {
		if record := r.Record(); record.Timestamp > timestamp {
			offset, timestamp, ok = record.Offset, record.Timestamp, true
		}
	}
	return offset, timestamp, ok, r.Err()
}
