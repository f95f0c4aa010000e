// Package grantd gets tokens from grantd, the local OAuth broker. It uses only the standard library.
//
//	token, err := grantd.Get(ctx, "work")
//
// docs/libraries.md describes the behaviour, which all libraries share.
package grantd

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

const (
	// The broker's own limit if a request names none, and how much longer the client waits for the broker's answer.
	defaultTimeout = 30 * time.Second
	grace          = 5 * time.Second
	loginWait      = 30 * time.Second

	tokenMethod = "token.get"
)

// Options of a request. The zero value has the broker's defaults.
type Options struct {
	// Scopes of the token, if fewer than granted (RFC 6749 §6).
	Scopes []string
	// Resource that the token is for (RFC 8707).
	Resource string
	// MinTTL is how long the token must still be valid.
	MinTTL time.Duration
	// Timeout is the time to wait for a refresh; 30 s if zero, at most 300 s.
	Timeout time.Duration
}

// Client is a client for all goroutines of a process. It keeps one connection, which opens with the first call. The zero
// value uses GRANTD_SOCKET, then the user's broker, then the system's.
type Client struct {
	// Socket is the path of the broker's socket, if it is not the usual one.
	Socket string

	lock    sync.Mutex
	current *channel
}

var shared Client

// Get returns an access token that is valid now, by a client that the process shares.
func Get(ctx context.Context, account string) (*Token, error) {
	return shared.Token(ctx, account, Options{})
}

// Token returns an access token that is valid now; the broker refreshes it first if necessary.
func (c *Client) Token(ctx context.Context, account string, options Options) (*Token, error) {
	r, err := tokenRequest(account, options)
	if err != nil {
		return nil, err
	}
	got, err := c.exchange(ctx, r)
	if err != nil {
		return nil, err
	}
	if got.token != nil {
		return got.token, nil
	}
	return newToken(got.Result)
}

func tokenRequest(account string, options Options) (request, error) {
	if options.Scopes == nil && options.Resource == "" && options.MinTTL == 0 && options.Timeout <= 0 {
		params := append(make([]byte, 0, len(account)+len(`{"account":""}`)), `{"account":`...)
		return request{tokenMethod, append(appendString(params, account), '}'), defaultTimeout + grace, true}, nil
	}
	params := map[string]any{"account": account}
	if options.Scopes != nil {
		params["scopes"] = options.Scopes
	}
	if options.Resource != "" {
		params["resource"] = options.Resource
	}
	if options.MinTTL != 0 {
		params["min_ttl"] = options.MinTTL.Seconds()
	}
	r, err := newRequest(tokenMethod, params, options.Timeout)
	r.wantsToken = true
	return r, err
}

// ReportRejected reports that a server answered 401 to the token of that generation. It returns the generation of the current
// token. Report a generation once, then call Token again.
func (c *Client) ReportRejected(ctx context.Context, account string, generation int64) (int64, error) {
	result, err := c.Call(ctx, "token.report_rejected", map[string]any{"account": account, "generation": generation}, 0)
	if err != nil {
		return 0, err
	}
	var found struct{ Generation *int64 }
	if json.Unmarshal(result, &found) != nil || found.Generation == nil {
		return 0, bad("has no generation")
	}
	return *found.Generation, nil
}

// Account is an account that this process may see.
type Account struct {
	Account   string       `json:"account"`
	Provider  string       `json:"provider"`
	State     AccountState `json:"state"`
	Scopes    []string     `json:"scopes"`
	ExpiresAt int64        `json:"expires_at"`
}

// Accounts returns all accounts that this process may see.
func (c *Client) Accounts(ctx context.Context) ([]Account, error) {
	var found []Account
	params := map[string]any{}
	for {
		result, err := c.Call(ctx, "account.list", params, 0)
		if err != nil {
			return nil, err
		}
		var page struct {
			Accounts []Account
			Next     string
		}
		if json.Unmarshal(result, &page) != nil {
			return nil, bad("is not a list of accounts")
		}
		found = append(found, page.Accounts...)
		// A page that does not go on would be requested without an end.
		if page.Next == "" || page.Next == params["after"] {
			return found, nil
		}
		params["after"] = page.Next
	}
}

// Destination is a place to sign in.
type Destination struct {
	Kind            string `json:"kind"`
	URL             string `json:"url"`
	App             string `json:"app,omitempty"`
	UserCode        string `json:"user_code,omitempty"`
	VerificationURI string `json:"verification_uri,omitempty"`
}

// Login signs a user in, and returns the result of login.wait when the login is completed or requires another action.
func (c *Client) Login(ctx context.Context, provider, account string, show func([]Destination)) (json.RawMessage, error) {
	result, err := c.Call(ctx, "login.start", map[string]any{"provider": provider, "account": account}, 0)
	if err != nil {
		return nil, err
	}
	var started struct {
		LoginID      string `json:"login_id"`
		Destinations []Destination
	}
	if json.Unmarshal(result, &started) != nil {
		return nil, bad("is not a login")
	}
	show(started.Destinations)
	// It ends: the broker ends each login at its expires_at with an error.
	for {
		result, err := c.Call(ctx, "login.wait", map[string]any{"login_id": started.LoginID}, loginWait)
		if err != nil {
			return nil, err
		}
		var waited struct{ State string }
		if json.Unmarshal(result, &waited) != nil {
			return nil, bad("is not a login")
		}
		if waited.State != "pending" {
			return result, nil
		}
	}
}

// Event is what happened to an account, a provider or the broker.
type Event struct {
	Type       EventType `json:"type"`
	At         int64     `json:"at"`
	Account    string    `json:"account"`
	Provider   string    `json:"provider"`
	Generation int64     `json:"generation"`
	Reason     Reason    `json:"reason"`
	Message    string    `json:"message"`
	Hint       string    `json:"hint"`
}

// Events calls take for each event from now on, on a separate connection. subscribed, unless nil, is called at the beginning.
// It returns the error of take, of the context, or ErrDisconnected when the broker ends. No types: all.
func (c *Client) Events(ctx context.Context, types []EventType, subscribed func(), take func(Event) error) error {
	events, err := openChannel(ctx, c.Socket, mostEvents)
	if err != nil {
		return err
	}
	defer events.fail(disconnected())
	params := map[string]any{}
	if len(types) > 0 {
		params["events"] = types
	}
	r, err := newRequest("events.subscribe", params, 0)
	if err != nil {
		return err
	}
	if _, err := events.exchange(ctx, r); errors.Is(err, errUnsent) {
		return disconnected()
	} else if err != nil {
		return err
	}
	if subscribed != nil {
		subscribed()
	}
	for {
		select {
		case got := <-events.events:
			var event Event
			if json.Unmarshal(got, &event) != nil {
				return bad("is not an event")
			}
			if err := take(event); err != nil {
				return err
			}
		case <-events.ended:
			return events.failure
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Call returns the result of any method (docs/rpc.md). After a lost connection it is called again only if that is harmless.
// A zero timeout is the broker's default.
func (c *Client) Call(ctx context.Context, method string, params map[string]any, timeout time.Duration) (json.RawMessage, error) {
	r, err := newRequest(method, params, timeout)
	if err != nil {
		return nil, err
	}
	got, err := c.exchange(ctx, r)
	if err != nil {
		return nil, err
	}
	return got.Result, nil
}

func newRequest(method string, params map[string]any, timeout time.Duration) (request, error) {
	limit := defaultTimeout + grace
	if timeout > 0 {
		limit = timeout + grace
		if timed[method] {
			with := map[string]any{"timeout": timeout.Seconds()}
			for name, value := range params {
				with[name] = value
			}
			params = with
		}
	}
	text, err := json.Marshal(params)
	return request{method: method, params: text, limit: limit}, err
}

// exchange sends a request, a second time on a new connection if that is harmless and useful.
func (c *Client) exchange(ctx context.Context, r request) (*message, error) {
	channel, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	got, err := channel.exchange(ctx, r)
	isUseful := errors.Is(err, ErrShuttingDown) || errors.Is(err, errUnsent) ||
		errors.Is(err, ErrDisconnected) && repeatable[r.method]
	if !isUseful {
		return got, err
	}
	c.lock.Lock()
	if c.current == channel {
		c.current = nil
	}
	c.lock.Unlock()
	channel.replace()
	if channel, err = c.open(ctx); err != nil {
		return nil, err
	}
	if got, err = channel.exchange(ctx, r); errors.Is(err, errUnsent) {
		err = disconnected()
	}
	return got, err
}

// Close closes the connection. The next call opens another.
func (c *Client) Close() {
	c.lock.Lock()
	channel := c.current
	c.current = nil
	c.lock.Unlock()
	if channel != nil {
		channel.fail(disconnected())
	}
}

func (c *Client) open(ctx context.Context) (*channel, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.current == nil || !c.current.isOpen() {
		made, err := openChannel(ctx, c.Socket, 0)
		if err != nil {
			return nil, err
		}
		c.current = made
	}
	return c.current, nil
}
