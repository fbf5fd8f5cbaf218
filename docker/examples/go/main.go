// groupd in tests of Go, in a container of their own: go run . plain, or go run . drop-in
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
	"github.com/testcontainers/testcontainers-go/wait"
)

// plain starts a generic container. Its ports are known once it runs: it is told then where its clients are to connect.
func plain(ctx context.Context) (testcontainers.Container, string, error) {
	container, err := testcontainers.Run(ctx, "groupd:dev",
		testcontainers.WithExposedPorts("9092/tcp", "9080/tcp"),
		testcontainers.WithEnv(map[string]string{
			"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
		}),
		testcontainers.WithWaitStrategy(wait.ForHTTP("/ready").WithPort("9080/tcp")),
	)
	if err != nil {
		return container, "", err
	}
	bootstrap, err := container.PortEndpoint(ctx, "9092/tcp", "")
	if err != nil {
		return container, "", err
	}
	api, err := container.PortEndpoint(ctx, "9080/tcp", "http")
	if err != nil {
		return container, "", err
	}
	return container, bootstrap, advertise(ctx, api, bootstrap)
}

func advertise(ctx context.Context, api, bootstrap string) error {
	body := strings.NewReader(fmt.Sprintf(`{"PLAINTEXT": %q}`, bootstrap))
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, api+"/v1/namespaces/default/advertised", body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, why)
	}
	return nil
}

// dropIn has Testcontainers' module start groupd instead of Kafka.
func dropIn(ctx context.Context) (testcontainers.Container, string, error) {
	container, err := kafka.Run(ctx, "groupd-kafka:8.0.0")
	if err != nil {
		return container, "", err
	}
	brokers, err := container.Brokers(ctx)
	if err != nil {
		return container, "", err
	}
	return container, brokers[0], nil
}

func main() {
	start := plain
	if len(os.Args) > 1 && os.Args[1] == "drop-in" {
		start = dropIn
	}
	container, bootstrap, err := start(context.Background())
	defer testcontainers.TerminateContainer(container)
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(bootstrap)
	io.Copy(io.Discard, os.Stdin)
}
