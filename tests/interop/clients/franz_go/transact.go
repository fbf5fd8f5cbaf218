// A transactional producer. Where there is a group it is a session: a member whose offsets are part of its transactions.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const stepTimeout = 30 * time.Second

type transactor struct {
	client  *kgo.Client
	session *kgo.GroupTransactSession
	// read is where the polls of this transaction have come to.
	read int64
}

func newTransactor() (*transactor, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...),
		kgo.TransactionalID(*transactionalID),
		kgo.ProducerLinger(millis(5)),
		kgo.RecordDeliveryTimeout(20 * time.Second),
	}
	if *group == "" {
		client, err := kgo.NewClient(opts...)
		return &transactor{client: client}, err
	}
	session, err := kgo.NewGroupTransactSession(append(opts,
		kgo.ConsumerGroup(*group),
		kgo.ConsumeTopics(*topics),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(millis(100)),
	)...)
	if err != nil {
		return nil, err
	}
	return &transactor{client: session.Client(), session: session}, nil
}

func (t *transactor) begin() error {
	t.read = 0
	if t.session != nil {
		return t.session.Begin()
	}
	return t.client.BeginTransaction()
}

func (t *transactor) end(ctx context.Context, how kgo.TransactionEndTry) error {
	if t.session == nil {
		if how == kgo.TryAbort {
			if err := t.client.AbortBufferedRecords(ctx); err != nil {
				return err
			}
		}
		return t.client.EndTransaction(ctx, how)
	}
	committed, err := t.session.End(ctx, how)
	if err == nil && committed != bool(how) {
		return fmt.Errorf("the session aborted its transaction")
	}
	return err
}

func (t *transactor) produce(ctx context.Context, words []string) error {
	count, err := strconv.Atoi(words[3])
	if err != nil {
		return err
	}
	records := make([]*kgo.Record, count)
	for n := range records {
		records[n] = &kgo.Record{Topic: words[1], Value: fmt.Appendf(nil, "%s-%d", words[2], n)}
	}
	return t.client.ProduceSync(ctx, records...).FirstErr()
}

// offsets reads the topic's one partition up to the offset; the session adds it to the transaction at its end.
func (t *transactor) offsets(ctx context.Context, words []string) error {
	end, err := strconv.ParseInt(words[3], 10, 64)
	if err != nil {
		return err
	}
	for t.read < end {
		fetches := t.session.PollRecords(ctx, 1)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) { t.read = r.Offset + 1 })
	}
	return nil
}

func (t *transactor) step(ctx context.Context, words []string) error {
	switch words[0] {
	case "init":
		_, _, err := t.client.ProducerID(ctx)
		return err
	case "begin":
		return t.begin()
	case "commit":
		return t.end(ctx, kgo.TryCommit)
	case "abort":
		return t.end(ctx, kgo.TryAbort)
	case "produce":
		return t.produce(ctx, words)
	case "offsets":
		return t.offsets(ctx, words)
	}
	return fmt.Errorf("no such command: %s", words[0])
}

func transact() {
	t, err := newTransactor()
	if err != nil {
		tell(err)
		os.Exit(1)
	}
	for command := range readCommands() {
		if command == "leave" {
			t.client.Close()
			emit("closed", nil)
			return
		}
		words := strings.Fields(command)
		limited, stop := context.WithTimeout(context.Background(), stepTimeout)
		err := t.step(limited, words)
		stop()
		if err != nil {
			tell(err)
		} else {
			emit("done", fields{"command": words[0]})
		}
	}
}
