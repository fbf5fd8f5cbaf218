// kfake as a server of its own: one broker that keeps everything in memory, until SIGTERM.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

var (
	port       = flag.Int("port", 0, "port to listen on; 0 takes a free one")
	topic      = flag.String("topic", "orders", "topic that exists")
	partitions = flag.Int("partitions", 1, "its partitions")
	session    = flag.Duration("max-session-timeout", 30*time.Minute, "longest session timeout of a member")
)

func main() {
	properties := map[string]string{}
	flag.Func("property", "NAME=VALUE of a broker; may be repeated", func(text string) error {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return errors.New("not NAME=VALUE")
		}
		properties[name] = value
		return nil
	})
	flag.Parse()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	cluster, err := kfake.NewCluster(
		kfake.Ports(*port),
		kfake.SeedTopics(int32(*partitions), *topic),
		kfake.GroupMaxSessionTimeout(*session),
		kfake.BrokerConfigs(properties),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cluster.ListenAddrs()[0])
	<-stop
	cluster.Close()
}
