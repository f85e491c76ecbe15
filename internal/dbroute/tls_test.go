package dbroute

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// The certificate of a server must be for the host of its URL, and for no other.
func TestCertificateIsForTheHostOfTheURL(t *testing.T) {
	const trusting = "trusting"
	certificate := certificateFor(t, "db.example.test")
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Leaf)
	if err := mysql.RegisterTLSConfig(trusting, &tls.Config{RootCAs: roots}); err != nil {
		t.Fatal(err)
	}
	defer mysql.DeregisterTLSConfig(trusting)
	for _, e := range []engine{newMySQL(), newMariaDB()} {
		for host, want := range map[string]bool{"db.example.test": true, "db.example.test:3307": true, "other.example.test": false} {
			t.Run(string(e.name())+" "+host, func(t *testing.T) {
				secured := make(chan error, 1)
				dial := func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					go func() { secured <- startTLS(server, certificate) }()
					return client, nil
				}
				connector, _, err := e.connector("mysql://app@"+host+"/blog?tls="+trusting, false, dial)
				if err != nil {
					t.Fatal(err)
				}
				_, refused := connector.Connect(t.Context())
				if err := <-secured; (err == nil) != want {
					t.Errorf("the handshake ends with %v; connect: %v", err, refused)
				}
			})
		}
	}
}

// startTLS greets a client as MySQL 8 does, secures the connection as the client then
// asks for, waits for its first packet and hangs up.
func startTLS(conn net.Conn, certificate tls.Certificate) error {
	defer conn.Close()
	const (
		greeting = "\x0a8.4.0\x00" + // protocol and version
			"\x01\x00\x00\x00" + "12345678\x00" + // connection id and the first part of the scramble
			"\x00\xaa" + "\xff" + "\x02\x00" + "\x09\x00" + // capabilities: TLS, 4.1, secure connection, plugins
			"\x15" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + // length of the scramble
			"123456789012\x00" + "caching_sha2_password\x00"
		sslRequestLen = 4 + 32
	)
	if _, err := conn.Write(append([]byte{byte(len(greeting)), 0, 0, 0}, greeting...)); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, make([]byte, sslRequestLen)); err != nil {
		return err
	}
	secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}})
	_, err := secured.Read(make([]byte, 1))
	return err
}

// certificateFor makes a certificate that has signed itself.
func certificateFor(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
