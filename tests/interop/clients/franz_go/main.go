// franz-go as a group member or producer. Options, commands and events: see ../conversation.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	mode             = flag.String("mode", "consume", "consume, produce, transact or cells")
	bootstrap        = flag.String("bootstrap", "", "HOST:PORT")
	group            = flag.String("group", "", "group id")
	topics           = flag.String("topics", "", "comma separated")
	pattern          = flag.String("pattern", "", "a regular expression instead of topics")
	groupProtocol    = flag.String("group-protocol", "classic", "classic or consumer")
	assignor         = flag.String("assignor", "range", "assignor; the coordinator's, for the protocol consumer")
	instanceID       = flag.String("instance-id", "", "group.instance.id")
	clientID         = flag.String("client-id", "", "the client's own where this is empty")
	sessionTimeout   = flag.Int("session-timeout-ms", 6000, "session timeout")
	heartbeat        = flag.Int("heartbeat-ms", 500, "heartbeat interval")
	rebalanceTimeout = flag.Int("rebalance-timeout-ms", 30000, "rebalance timeout")
	metadataMaxAge   = flag.Int("metadata-max-age-ms", 60000, "metadata max age")
	isolation        = flag.String("isolation-level", "read_uncommitted", "read_committed or read_uncommitted")
	topic            = flag.String("topic", "", "where a producer writes")
	count            = flag.Int("count", 0, "records to produce")
	codec            = flag.String("codec", "none", "compression")
	idempotent       = flag.String("idempotent", "false", "true or false")
	transactionalID  = flag.String("transactional-id", "", "transactional id")
)

type fields map[string]any

var printLock sync.Mutex

func emit(event string, more fields) {
	if more == nil {
		more = fields{}
	}
	more["event"] = event
	line, err := json.Marshal(more)
	if err != nil {
		panic(err)
	}
	printLock.Lock()
	defer printLock.Unlock()
	fmt.Println(string(line))
}

func tell(err error) {
	name := fmt.Sprintf("%T", err)
	var known *kerr.Error
	if errors.As(err, &known) {
		name = known.Message
	}
	emit("error", fields{"name": name, "message": err.Error(), "fatal": !kerr.IsRetriable(err)})
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// ownership is what this member owns, told after each change.
type ownership struct {
	lock  sync.Mutex
	owned map[string]map[int32]bool
}

func pairs(of map[string]map[int32]bool) [][]any {
	out := [][]any{}
	for name, partitions := range of {
		for partition := range partitions {
			out = append(out, []any{name, partition})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return fmt.Sprint(out[i][0]) < fmt.Sprint(out[j][0]) ||
			out[i][0] == out[j][0] && out[i][1].(int32) < out[j][1].(int32)
	})
	return out
}

func (o *ownership) assigned(_ context.Context, _ *kgo.Client, fresh map[string][]int32) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for name, partitions := range fresh {
		if o.owned[name] == nil {
			o.owned[name] = map[int32]bool{}
		}
		for _, partition := range partitions {
			o.owned[name][partition] = true
		}
	}
	emit("assigned", fields{"partitions": pairs(o.owned)})
}

func (o *ownership) gone(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
		o.lock.Lock()
		defer o.lock.Unlock()
		told := map[string]map[int32]bool{}
		for name, partitions := range gone {
			told[name] = map[int32]bool{}
			for _, partition := range partitions {
				told[name][partition] = true
				delete(o.owned[name], partition)
			}
		}
		if list := pairs(told); len(list) > 0 {
			emit(event, fields{"partitions": list})
		}
	}
}

func balancer() kgo.GroupBalancer {
	switch *assignor {
	case "range":
		return kgo.RangeBalancer()
	case "roundrobin":
		return kgo.RoundRobinBalancer()
	case "sticky", "uniform": // this is how the coordinator's is asked for
		return kgo.StickyBalancer()
	case "cooperative-sticky":
		return kgo.CooperativeStickyBalancer()
	}
	panic("unknown assignor " + *assignor)
}

func isolationLevel() kgo.IsolationLevel {
	if *isolation == "read_committed" {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

func newMember() *kgo.Client {
	o := &ownership{owned: map[string]map[int32]bool{}}
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...),
		kgo.ConsumerGroup(*group),
		kgo.Balancers(balancer()),
		kgo.SessionTimeout(millis(*sessionTimeout)),
		kgo.HeartbeatInterval(millis(*heartbeat)),
		kgo.RebalanceTimeout(millis(*rebalanceTimeout)),
		kgo.MetadataMinAge(millis(min(*metadataMaxAge/2, 2500))),
		kgo.MetadataMaxAge(millis(*metadataMaxAge)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(millis(100)),
		kgo.FetchIsolationLevel(isolationLevel()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(o.assigned),
		kgo.OnPartitionsRevoked(o.gone("revoked")),
		kgo.OnPartitionsLost(o.gone("lost")),
	}
	if *pattern != "" {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+*pattern))
	} else {
		opts = append(opts, kgo.ConsumeTopics(strings.Split(*topics, ",")...))
	}
	if *groupProtocol == "consumer" {
		optedIn := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
		opts = append(opts, kgo.WithContext(optedIn))
	}
	if *instanceID != "" {
		opts = append(opts, kgo.InstanceID(*instanceID))
	}
	if *clientID != "" {
		opts = append(opts, kgo.ClientID(*clientID))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		tell(err)
		os.Exit(1)
	}
	return client
}

func commit(client *kgo.Client) {
	if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
		tell(err)
		return
	}
	offsets := [][]any{}
	for name, partitions := range client.CommittedOffsets() {
		for partition, at := range partitions {
			offsets = append(offsets, []any{name, partition, at.Offset})
		}
	}
	emit("committed", fields{"offsets": offsets})
}

func readCommands() <-chan string {
	commands := make(chan string)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			commands <- strings.TrimSpace(lines.Text())
		}
		os.Exit(3)
	}()
	return commands
}

func consume() {
	client := newMember()
	commands := readCommands()
	for {
		select {
		case command := <-commands:
			switch {
			case command == "commit":
				commit(client)
			case command == "leave":
				client.Close()
				emit("closed", nil)
				return
			case strings.HasPrefix(command, "subscribe "):
				client.AddConsumeTopics(strings.Split(strings.Fields(command)[1], ",")...)
			}
		default:
		}
		polling, stop := context.WithTimeout(context.Background(), millis(50))
		fetches := client.PollFetches(polling)
		stop()
		for _, failed := range fetches.Errors() {
			if !errors.Is(failed.Err, context.DeadlineExceeded) {
				tell(failed.Err)
			}
		}
		fetches.EachRecord(func(r *kgo.Record) {
			emit("record", fields{
				"topic": r.Topic, "partition": r.Partition, "offset": r.Offset, "value": string(r.Value),
			})
		})
	}
}

func compression() kgo.CompressionCodec {
	switch *codec {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

func produce() {
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...),
		kgo.DefaultProduceTopic(*topic),
		kgo.ProducerBatchCompression(compression()),
		kgo.ProducerLinger(millis(20)),
		kgo.RecordDeliveryTimeout(20 * time.Second),
	}
	if *transactionalID != "" {
		opts = append(opts, kgo.TransactionalID(*transactionalID))
	} else if *idempotent != "true" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		tell(err)
		os.Exit(1)
	}
	if *transactionalID != "" {
		if err := client.BeginTransaction(); err != nil {
			tell(err)
			return
		}
	}
	records := make([]*kgo.Record, *count)
	for n := range records {
		records[n] = kgo.StringRecord(fmt.Sprintf("%s-%d", *codec, n))
	}
	limited, stop := context.WithTimeout(context.Background(), 25*time.Second)
	defer stop()
	if err := client.ProduceSync(limited, records...).FirstErr(); err != nil {
		tell(err)
		return
	}
	if *transactionalID != "" {
		if err := client.EndTransaction(limited, kgo.TryCommit); err != nil {
			tell(err)
			return
		}
	}
	emit("produced", fields{"count": len(records)})
	client.Close()
	emit("closed", nil)
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return module.Version
		}
	}
	return "unknown"
}

func main() {
	flag.Parse()
	if *mode == "cells" {
		visitCells()
		return
	}
	emit("ready", fields{"client": "franz-go", "version": version()})
	switch *mode {
	case "produce":
		produce()
	case "transact":
		transact()
	default:
		consume()
	}
}
