package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"

	"github.com/mintage/mintage/internal/server"
)

// tunedGC and tunedThreads are the settings that `mintage serve` makes for itself. The
// bare handler is measured with Go's defaults, and again with these settings, which is a
// harder comparison: it covers only the work on a request.
const tunedGC = 400

func tunedThreads() int { return runtime.GOMAXPROCS(0) + 1 }

// bare is the yardstick, in a process of its own: a net/http handler that parses the form
// and writes a fixed JSON body, behind the same listener, TLS settings and timeouts as
// the real server. With signing, it also makes an unused ES256 signature for each
// response; with verifying, it verifies one. It runs until it is killed.
func bare(certFile, keyFile, bodyFile, mode string) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	body, err := os.ReadFile(bodyFile)
	if err != nil {
		return err
	}
	certificate, err := server.LoadCertificate(certFile, keyFile, log)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(body)
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		return err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if mode == verifyingFlag {
			if sum := sha256.Sum256(body); !ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature) {
				http.Error(w, "the signature is not valid", http.StatusInternalServerError)
				return
			}
		}
		if mode == signingFlag {
			sum := sha256.Sum256(body)
			if _, err := ecdsa.SignASN1(rand.Reader, key, sum[:]); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	})
	srv := server.HTTPServer(handler, log)
	srv.TLSConfig = server.TLSConfig(certificate)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return srv.ServeTLS(l, "", "")
}
