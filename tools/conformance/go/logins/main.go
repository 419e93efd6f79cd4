// Logs in with franz-go as each line of standard input says, and prints a line with what came of it: {"client": NAME,
// "servers": HOST:PORT, "ca": FILE, "mechanism": NAME, "user": NAME, "password": TEXT, "token": TEXT} makes a client, the
// same with its name alone asks an existing one again.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type asked struct {
	Client, Servers, CA, Certificate, Mechanism, User, Password, Token string
	Seconds                                                            int
}

func main() {
	clients := map[string]*kgo.Client{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one asked
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			fmt.Println("failed", err)
			continue
		}
		waitFor := time.Duration(one.Seconds) * time.Second
		if one.Servers != "" {
			client, err := made(one)
			if err != nil {
				fmt.Println("failed", err)
				continue
			}
			clients[one.Client] = client
		}
		ctx, cancel := context.WithTimeout(context.Background(), waitFor)
		brokers, err := kadm.NewClient(clients[one.Client]).ListBrokers(ctx)
		cancel()
		if err != nil {
			fmt.Println("refused", strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		fmt.Println("ok", len(brokers))
	}
}

func made(one asked) (*kgo.Client, error) {
	waitFor := time.Duration(one.Seconds) * time.Second
	options := []kgo.Opt{kgo.SeedBrokers(one.Servers), kgo.RequestRetries(1), kgo.RetryTimeout(waitFor)}
	if one.CA != "" {
		pem, err := os.ReadFile(one.CA)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		config := &tls.Config{RootCAs: pool}
		if one.Certificate != "" {
			pair, err := tls.LoadX509KeyPair(one.Certificate, one.Certificate)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: waitFor}, Config: config}
		options = append(options, kgo.Dialer(dialer.DialContext))
	}
	var login sasl.Mechanism
	switch one.Mechanism {
	case "PLAIN":
		login = plain.Auth{User: one.User, Pass: one.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		login = scram.Auth{User: one.User, Pass: one.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		login = scram.Auth{User: one.User, Pass: one.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		login = oauth.Auth{Token: one.Token}.AsMechanism()
	}
	if login != nil {
		options = append(options, kgo.SASL(login))
	}
	return kgo.NewClient(options...)
}
