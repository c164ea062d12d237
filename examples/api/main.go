// Api is a small API that requires access tokens of Mintage: a list of invoices, which
// can be read with the scope read, and extended with the scope write. See
// docs/tutorials/protect-an-api.md.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mintage/mintage/resource"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8096", "address of the API")
	audience := flag.String("audience", "", "what the access tokens must be for: the address of the API; default: http:// and -listen")
	issuer := flag.String("issuer", "https://127.0.0.1:8443/oauth2/api", "issuer of the access tokens")
	ca := flag.String("ca", "", "certificate authority of the issuer, if the system does not know it")
	id := flag.String("client-id", "invoices-api", "who the API is at the issuer")
	secretFile := flag.String("client-secret-file", "", "file with its secret")
	flag.Parse()
	if *audience == "" {
		*audience = "http://" + *listen
	}
	secret, err := os.ReadFile(*secretFile)
	if err != nil {
		log.Fatal(err)
	}
	client, err := trusting(*ca)
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := resource.New(resource.Config{
		Issuer: *issuer, Audience: *audience, ClientID: *id, ClientSecret: strings.TrimSpace(string(secret)), HTTPClient: client,
		PublishMetadata: true, ScopesSupported: []string{"read", "write"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer verifier.Close()
	log.Printf("the API is at http://%s/invoices", *listen)
	server := http.Server{Addr: *listen, Handler: protect(verifier), ReadTimeout: 10 * time.Second}
	log.Print(server.ListenAndServe())
}

// protect returns the API as clients see it, with metadata that name its authorization
// server (RFC 9728).
func protect(verifier *resource.Verifier) http.Handler {
	mux := newAPI(verifier.Require)
	mux.Handle(verifier.MetadataPath(), verifier.Metadata())
	return mux
}

// newAPI returns the API itself. require returns middleware that requires scopes.
func newAPI(require func(scopes ...string) func(http.Handler) http.Handler) *http.ServeMux {
	list := &invoices{}
	mux := http.NewServeMux()
	mux.Handle("GET /invoices", require("read")(http.HandlerFunc(list.show)))
	mux.Handle("POST /invoices", require("write")(http.HandlerFunc(list.add)))
	return mux
}

// invoices are stored in memory, one line each.
type invoices struct {
	mu    sync.Mutex
	lines []string
}

func (l *invoices) show(w http.ResponseWriter, r *http.Request) {
	caller, _ := resource.FromContext(r.Context())
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(w, "%d invoices, shown to %s\n", len(l.lines), caller.Subject)
	for _, line := range l.lines {
		fmt.Fprintln(w, line)
	}
}

func (l *invoices) add(w http.ResponseWriter, r *http.Request) {
	caller, _ := resource.FromContext(r.Context())
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1000))
	if err != nil {
		http.Error(w, "an invoice has at most 1000 bytes", http.StatusRequestEntityTooLarge)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%s, by %s", strings.TrimSpace(string(text)), caller.Subject))
	w.WriteHeader(http.StatusCreated)
}

// trusting returns an HTTP client that trusts a private certificate authority; nil, which
// means the default client, without a file.
func trusting(file string) (*http.Client, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New(file + " holds no certificate")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: 10 * time.Second}, nil
}
