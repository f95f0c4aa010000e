// The driver of Go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"grantd.invalid/grantd"
)

type command struct {
	Do         string
	Account    string
	Then       string
	Provider   string
	Scopes     []string
	Resource   string
	MinTTL     float64 `json:"min_ttl"`
	Timeout    float64
	Generation int64
	Count      int
	Threads    int
	Separate   bool
	Types      []grantd.EventType
	URL        string
	Body       string
	Stream     bool
}

type object map[string]any

var (
	client   grantd.Client
	ctx      = context.Background()
	errTaken = errors.New("taken")
	known    = map[grantd.Reason]error{
		grantd.ReasonLoginRequired: grantd.ErrLoginRequired, grantd.ReasonNotPermitted: grantd.ErrNotPermitted,
		grantd.ReasonTemporarilyUnavailable: grantd.ErrTemporarilyUnavailable}
)

func say(answer object) {
	line, _ := json.Marshal(answer)
	fmt.Println(string(line))
}

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

func described(err error) object {
	var found *grantd.Error
	if !errors.As(err, &found) {
		panic(err)
	}
	isType := known[found.Reason] != nil && errors.Is(err, known[found.Reason]) && !errors.Is(err, grantd.ErrOverloaded)
	return object{
		"reason": found.Reason, "message": found.Message, "hint": found.Hint, "retry_after": found.RetryAfter, "is_type": isType,
		"texts": []string{fmt.Sprint(err), fmt.Sprintf("%#v", found)}}
}

func members(token *grantd.Token) object {
	return object{
		"access_token": token.AccessToken(), "token_type": token.Type, "expires_at": token.Expiry.Unix(), "scope": token.Scope,
		"account": token.Account, "provider": token.Provider, "generation": token.Generation}
}

func token(c command) (any, error) {
	options := grantd.Options{
		Scopes: c.Scopes, Resource: c.Resource, MinTTL: seconds(c.MinTTL), Timeout: seconds(c.Timeout)}
	got, err := client.Token(ctx, c.Account, options)
	if err != nil {
		return nil, err
	}
	return members(got), nil
}

func printed(c command) (any, error) {
	got, err := grantd.Get(ctx, c.Account)
	if err != nil {
		return nil, err
	}
	texts := []string{}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		texts = append(texts, fmt.Sprintf(format, got), fmt.Sprintf(format, *got), fmt.Sprintf(format, []*grantd.Token{got}))
	}
	for _, value := range []any{got, *got} {
		text, _ := json.Marshal(value)
		texts = append(texts, string(text))
	}
	return append(texts, fmt.Sprintf("%+v", &client)), nil
}

func many(c command) (any, error) {
	var (
		group  sync.WaitGroup
		lock   sync.Mutex
		good   int
		failed = []object{}
	)
	for i := 0; i < c.Threads; i++ {
		group.Add(1)
		used := &client
		if c.Separate {
			used = &grantd.Client{}
			defer used.Close()
		}
		go func() {
			defer group.Done()
			for left := c.Count / c.Threads; left > 0; left-- {
				_, err := used.Token(ctx, c.Account, grantd.Options{})
				lock.Lock()
				if err == nil {
					good++
				} else {
					failed = append(failed, described(err))
				}
				lock.Unlock()
			}
		}()
	}
	group.Wait()
	if len(failed) > 3 {
		failed = failed[:3]
	}
	return object{"good": good, "failed": failed}, nil
}

func interrupted(c command) (any, error) {
	limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := client.Token(limited, c.Account, grantd.Options{})
	got, then := client.Token(ctx, c.Then, grantd.Options{})
	if then != nil {
		return nil, then
	}
	return object{"was_interrupted": errors.Is(err, context.DeadlineExceeded), "token": got.AccessToken()}, nil
}

func events(c command) (any, error) {
	var found grantd.Event
	subscribed := func() { say(object{"ok": "subscribed"}) }
	err := client.Events(ctx, c.Types, subscribed, func(event grantd.Event) error {
		if event.Account != c.Account {
			return nil
		}
		found = event
		return errTaken
	})
	if err != errTaken {
		return nil, err
	}
	return object{"type": found.Type, "at": found.At}, nil
}

func fetch(c command) (any, error) {
	transport := &grantd.Transport{Account: c.Account, Client: &client, Base: &http.Transport{DisableKeepAlives: true}}
	method, body := http.MethodGet, io.Reader(nil)
	if c.Body != "" {
		method, body = http.MethodPost, strings.NewReader(c.Body)
	}
	if c.Stream {
		body = io.MultiReader(body)
	}
	request, err := http.NewRequest(method, c.URL, body)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct{ Body string }
	err = json.NewDecoder(response.Body).Decode(&answer)
	return object{"status": response.StatusCode, "body": answer.Body}, err
}

func perform(c command) (any, error) {
	switch c.Do {
	case "token":
		return token(c)
	case "report":
		return client.ReportRejected(ctx, c.Account, c.Generation)
	case "print":
		return printed(c)
	case "accounts":
		return client.Accounts(ctx)
	case "login":
		return client.Login(ctx, c.Provider, c.Account, func(places []grantd.Destination) { say(object{"ok": places}) })
	case "many":
		return many(c)
	case "interrupted":
		return interrupted(c)
	case "events":
		return events(c)
	case "fetch":
		return fetch(c)
	}
	return object{"skip": "a Go program forks only to execute another one"}, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		answer, err := perform(c)
		if skip, ok := answer.(object); ok && skip["skip"] != nil {
			say(skip)
		} else if err != nil {
			say(object{"error": described(err)})
		} else {
			say(object{"ok": answer})
		}
	}
	client.Close()
}
