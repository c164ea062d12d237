package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// pollers is how many device codes are polled concurrently. A client's pending device
// codes are limited.
const pollers = 5

// deviceCodes requests device codes whose users never decide.
func (h *host) deviceCodes(ctx context.Context, n int) (list []string, err error) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: h.target.TLS.Clone()}}
	defer client.CloseIdleConnections()
	form := url.Values{"client_id": {h.target.ClientID}, "client_secret": {h.target.ClientSecret}}.Encode()
	for range n {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.Replace(h.target.Endpoint, "/access_token?", "/device_authorization?", 1), strings.NewReader(form))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		var d struct {
			Code string `json:"device_code"`
		}
		err = json.NewDecoder(answer.Body).Decode(&d)
		answer.Body.Close()
		if err != nil || d.Code == "" {
			return nil, fmt.Errorf("device authorization: %s, %v", answer.Status, err)
		}
		list = append(list, d.Code)
	}
	return list, nil
}
