// Package blackbox plays the failures that others had: each row of docs/black-box.md is
// a fault that users reported of some Kafka-compatible broker or client, and one story
// here that meets the real binary as those users did, from outside and by the same
// bytes, and holds it to the clause that says what is right.
//
// There is nothing but tests. rows in rows_test.go is the table; docs/black-box.md is the
// same for people, and a test compares the two. One row alone:
//
//	go test ./internal/blackbox -run 'TestBlackBox/row_28_'
//
// Who speaks is franz-go, librdkafka (kcat), or, where a row names a client that is not
// here (sarama, kafka-go, kafka-python), requests of exactly the versions that this client
// sends, written by kmsg onto a bare connection: the fault lies in the bytes, and
// another three clients among the dependencies would send no others.
package blackbox
