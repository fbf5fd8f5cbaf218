package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// franz-go visits a secured broker. What it reads, does and answers: see ../visits.py.

const (
	atOnce  = 8
	step    = 40 * time.Second
	staying = 7 * time.Second
	pause   = 100 * time.Millisecond
	catchUp = 60 * time.Second
)

type cell map[string]string

func said(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%T: %v", err, err)
}

func (c cell) tls() (*tls.Config, error) {
	authority, err := os.ReadFile(c["authority"])
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if c["certificate"] != "" {
		own, err := tls.LoadX509KeyPair(c["certificate"], c["key"])
		if err != nil {
			return nil, err
		}
		// One of `Certificates` is kept back where the broker says that others have to have signed it.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return config, nil
}

func (c cell) mechanism() sasl.Mechanism {
	secret := scram.Auth{User: c["user"], Pass: c["password"]}
	switch c["mechanism"] {
	case "PLAIN":
		return plain.Auth{User: c["user"], Pass: c["password"]}.AsMechanism()
	case "SCRAM-SHA-256":
		return secret.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return secret.AsSha512Mechanism()
	}
	panic("unknown mechanism " + c["mechanism"])
}

func (c cell) client(more ...kgo.Opt) (*kgo.Client, error) {
	opts := append([]kgo.Opt{kgo.SeedBrokers(strings.Split(c["bootstrap"], ",")...), kgo.ClientID(c["name"])}, more...)
	if strings.Contains(c["protocol"], "SSL") {
		config, err := c.tls()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if c["mechanism"] != "" {
		opts = append(opts, kgo.SASL(c.mechanism()))
	}
	return kgo.NewClient(opts...)
}

func (c cell) member(group string) (*kgo.Client, error) {
	return c.client(
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(c["topic"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(pause),
		kgo.DisableAutoCommit(),
	)
}

func writeOne(client *kgo.Client, topic, value string) error {
	limited, stop := context.WithTimeout(context.Background(), step)
	defer stop()
	record := &kgo.Record{Topic: topic, Value: []byte(value)}
	return client.ProduceSync(limited, record).FirstErr()
}

// values are what has arrived within a pause.
func values(client *kgo.Client) ([]string, error) {
	limited, stop := context.WithTimeout(context.Background(), pause)
	defer stop()
	fetches := client.PollFetches(limited)
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return nil, failed.Err
		}
	}
	var found []string
	fetches.EachRecord(func(r *kgo.Record) { found = append(found, string(r.Value)) })
	return found, nil
}

func readUntil(client *kgo.Client, wanted string) error {
	for end := time.Now().Add(step); time.Now().Before(end); {
		found, err := values(client)
		if err != nil {
			return err
		}
		for _, value := range found {
			if value == wanted {
				return nil
			}
		}
	}
	return fmt.Errorf("%s was not read", wanted)
}

func (c cell) login() fields {
	client, err := c.client(kgo.RequestRetries(1))
	if err == nil {
		limited, stop := context.WithTimeout(context.Background(), step)
		defer stop()
		err = client.Ping(limited)
		client.Close()
	}
	return fields{"login": said(err)}
}

func (c cell) work() fields {
	producer, err := c.client()
	if err != nil {
		return fields{"login": said(err)}
	}
	defer producer.Close()
	member, err := c.member(c["group"])
	if err != nil {
		return fields{"login": said(err)}
	}
	defer member.Close()
	answer := fields{"login": ""}
	for _, each := range []struct {
		name   string
		action func() error
	}{
		{"produce", func() error { return writeOne(producer, c["topic"], c["name"]) }},
		{"consume", func() error { return readUntil(member, c["name"]) }},
		{"commit", func() error { return member.CommitUncommittedOffsets(context.Background()) }},
	} {
		err := each.action()
		answer[each.name] = said(err)
		if err != nil {
			return answer
		}
	}
	answer["refused_topic"] = said(writeOne(producer, c["refused_topic"], c["name"]))
	refused, err := c.member(c["refused_group"])
	if err == nil {
		defer refused.Close()
		err = readUntil(refused, c["name"])
	}
	answer["refused_group"] = said(err)
	return answer
}

func (c cell) stay() fields {
	producer, err := c.client()
	if err != nil {
		return fields{"login": said(err)}
	}
	defer producer.Close()
	member, err := c.member(c["group"])
	if err != nil {
		return fields{"login": said(err)}
	}
	defer member.Close()
	first := "first of " + c["name"]
	if err := errors.Join(writeOne(producer, c["topic"], first), readUntil(member, first)); err != nil {
		return fields{"login": said(err)}
	}
	var lock sync.Mutex
	errs, sent, acknowledged, read := []string{}, 0, 0, map[string]bool{}
	tell := func(err error) {
		lock.Lock()
		defer lock.Unlock()
		if err != nil {
			errs = append(errs, said(err))
		}
	}
	poll := func() {
		found, err := values(member)
		tell(err)
		for _, value := range found {
			if strings.HasPrefix(value, c["name"]) {
				read[value] = true
			}
		}
	}
	end := time.Now().Add(staying)
	for ; time.Now().Before(end); sent++ {
		record := &kgo.Record{Topic: c["topic"], Value: []byte(fmt.Sprintf("%s %d", c["name"], sent))}
		producer.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			tell(err)
			if err == nil {
				lock.Lock()
				acknowledged++
				lock.Unlock()
			}
		})
		poll()
	}
	for len(read) < sent && time.Now().Before(end.Add(catchUp)) {
		poll()
	}
	limited, stop := context.WithTimeout(context.Background(), step)
	defer stop()
	tell(producer.Flush(limited))
	committed := said(member.CommitUncommittedOffsets(context.Background()))
	return fields{"sent": sent, "acknowledged": acknowledged, "read": len(read), "commit": committed, "errors": errs}
}

func visitCells() {
	var visitors sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		c := cell{}
		for _, word := range strings.Split(lines.Text(), "\t") {
			name, value, _ := strings.Cut(word, "=")
			c[name] = value
		}
		turns <- struct{}{}
		visitors.Go(func() {
			answer := map[string]func() fields{"login": c.login, "work": c.work, "stay": c.stay}[c["visit"]]()
			answer["cell"] = c["name"]
			line, err := json.Marshal(answer)
			if err != nil {
				panic(err)
			}
			printLock.Lock()
			fmt.Println(string(line))
			printLock.Unlock()
			<-turns
		})
	}
	visitors.Wait()
}
