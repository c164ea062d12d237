package tracing

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// settings are the collector's settings in the environment. The OpenTelemetry
// specification defines a general variable for each, and one for traces only, which
// takes precedence.
type settings struct {
	endpoint string
	header   http.Header // may hold a secret
	timeout  time.Duration
	gzip     bool
	tls      *tls.Config // nil: the defaults
}

const (
	general  = "OTEL_EXPORTER_OTLP_"
	specific = "OTEL_EXPORTER_OTLP_TRACES_"

	defaultTimeout = 10 * time.Second
	tracesPath     = "/v1/traces"
)

// readSettings returns nil if traces are off. Its errors name the variable.
func readSettings(getenv func(string) string) (*settings, error) {
	get := func(name string) (value, from string) {
		if v := getenv(specific + name); v != "" {
			return v, specific + name
		}
		return getenv(general + name), general + name
	}
	endpoint, from := get("ENDPOINT")
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	if e := getenv("OTEL_TRACES_EXPORTER"); e != "" && e != "otlp" {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not supported: set otlp, or none for no traces", e)
	}
	if p, name := get("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("%s: %q is not supported: set http/protobuf, and the collector's HTTP port (4318) in %s", name, p, from)
	}
	s := &settings{timeout: defaultTimeout, header: http.Header{}}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s: it must be like http://collector:4318; credentials belong in %sHEADERS", from, general)
	}
	// A general endpoint is a base to append the path to; one for traces is complete.
	if from == general+"ENDPOINT" {
		u.Path = strings.TrimSuffix(u.Path, "/") + tracesPath
	}
	s.endpoint = u.String()
	if text, name := get("HEADERS"); text != "" {
		if s.header, err = parseHeaders(text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if text, name := get("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 {
			return nil, fmt.Errorf("%s: %q is no number of milliseconds above 0", name, text)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	switch text, name := get("COMPRESSION"); text {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return nil, fmt.Errorf("%s: %q is neither gzip nor none", name, text)
	}
	authority, authorityFrom := get("CERTIFICATE")
	cert, certFrom := get("CLIENT_CERTIFICATE")
	key, _ := get("CLIENT_KEY")
	s.tls, err = readTLS(authority, authorityFrom, cert, key, certFrom)
	return s, err
}

// parseHeaders reads name=value, separated by commas and percent-encoded like
// W3C Baggage. Its errors do not repeat values.
func parseHeaders(text string) (http.Header, error) {
	h := http.Header{}
	for i, pair := range strings.Split(text, ",") {
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || name == "" || err != nil || strings.ContainsAny(name+value, "\r\n") {
			return nil, fmt.Errorf("entry %d is not name=value, with special characters percent-encoded", i+1)
		}
		h.Add(name, value)
	}
	return h, nil
}

func readTLS(authority, authorityFrom, cert, key, certFrom string) (*tls.Config, error) {
	if authority == "" && cert == "" && key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		pem, err := os.ReadFile(authority)
		c.RootCAs = x509.NewCertPool()
		if err == nil && !c.RootCAs.AppendCertsFromPEM(pem) {
			err = errors.New("no certificate in " + authority)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", authorityFrom, err)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", certFrom, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
