// Command kfake serves a franz-go kfake cluster for Klamm's comparisons, until SIGTERM or SIGINT.
//
// Like `klamm serve` it writes one line to stdout when every broker accepts: bootstrap.servers=HOST:PORT,…
// With -in-process N it makes N clusters one after the other, writes the microseconds that each took, a line each, and ends.
// With -versions it writes what it is built from, a line "module version" each, and ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("kfake: ")
	var (
		firstPort = flag.Int("first-port", 0, "port of the first broker; the others take the next ones")
		brokers   = flag.Int("brokers", 3, "how many brokers")
		dataDir   = flag.String("data-dir", "", "keep the cluster's state there, every write synced (memory)")
		inProcess = flag.Int("in-process", 0, "make so many clusters, write how long each took, then end")
		versions  = flag.Bool("versions", false, "write the versions of Go and of the modules, then end")
	)
	flag.Parse()
	if *versions {
		writeVersions()
		return
	}
	if *inProcess > 0 {
		if err := timeStarts(*inProcess, *brokers); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := serve(*firstPort, *brokers, *dataDir); err != nil {
		log.Fatal(err)
	}
}

func serve(firstPort, brokers int, dataDir string) error {
	stopped, release := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer release()
	options := []kfake.Opt{kfake.NumBrokers(brokers)}
	if firstPort != 0 {
		var ports []int
		for port := firstPort; port < firstPort+brokers; port++ {
			ports = append(ports, port)
		}
		options = append(options, kfake.Ports(ports...))
	}
	if dataDir != "" {
		options = append(options, kfake.DataDir(dataDir), kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return err
	}
	defer cluster.Close()
	fmt.Printf("bootstrap.servers=%s\n", strings.Join(cluster.ListenAddrs(), ","))
	<-stopped.Done()
	return nil
}

func timeStarts(count, brokers int) error {
	for ; count > 0; count-- {
		started := time.Now()
		cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers))
		if err != nil {
			return err
		}
		fmt.Println(time.Since(started).Microseconds())
		cluster.Close()
	}
	return nil
}

func writeVersions() {
	fmt.Println("go", runtime.Version())
	built, ok := debug.ReadBuildInfo()
	if !ok {
		log.Fatal("built without module information")
	}
	for _, module := range built.Deps {
		fmt.Println(module.Path, module.Version)
	}
}
