package grantd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// Bytes of one answer, requests without an answer, events that the program has not taken.
	longestLine = 1 << 20
	mostWaiting = 1000
	mostEvents  = 10_000
	firstBuffer = 4096
	// Bytes of a request that are neither its method nor its parameters.
	lineOverhead = 80
)

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *wireError      `json:"error"`
}

type wireError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Reason     Reason            `json:"reason"`
		Hint       string            `json:"hint"`
		RetryAfter float64           `json:"retry_after"`
		OAuth      map[string]string `json:"oauth"`
	} `json:"data"`
}

// result is the result of an answer, or its error.
func (m *message) result() (json.RawMessage, error) {
	if e := m.Error; e != nil {
		return nil, &Error{
			Reason: e.Data.Reason, Message: e.Message, Hint: e.Data.Hint, Code: e.Code, RetryAfter: e.Data.RetryAfter,
			OAuth: e.Data.OAuth}
	}
	if len(m.Result) == 0 {
		return nil, bad("has no result")
	}
	return m.Result, nil
}

// channel is a connection that several goroutines use.
type channel struct {
	connection *net.UnixConn
	lock       sync.Mutex
	waiting    map[uint64]chan *message
	last       uint64
	isReplaced bool
	// Set when the connection has ended; ended is closed then.
	failure *Error
	ended   chan struct{}
	events  chan json.RawMessage
}

func openChannel(ctx context.Context, socket string, events int) (*channel, error) {
	connection, err := choose(socket).connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &channel{
		connection: connection, waiting: map[uint64]chan *message{}, ended: make(chan struct{}),
		events: make(chan json.RawMessage, events)}
	go c.read()
	return c, nil
}

func (c *channel) read() {
	lines := bufio.NewScanner(c.connection)
	lines.Buffer(make([]byte, 0, firstBuffer), longestLine)
	lines.Split(wholeLines)
	for lines.Scan() {
		got := new(message)
		// The error of encoding/json may quote the text, which may contain a token.
		if !utf8.Valid(lines.Bytes()) || json.Unmarshal(lines.Bytes(), got) != nil {
			c.fail(bad("is not valid"))
			return
		}
		if !c.deliver(got) {
			return
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		c.fail(bad("is too long"))
		return
	}
	c.fail(disconnected())
}

// wholeLines splits as bufio.ScanLines, without a last line that has no newline.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	return 0, nil, nil
}

// deliver gives a message to its waiter. Late answers, and notifications of a newer broker, have none.
func (c *channel) deliver(got *message) bool {
	var id uint64
	if json.Unmarshal(got.ID, &id) == nil {
		c.lock.Lock()
		waiter := c.waiting[id]
		delete(c.waiting, id)
		c.lock.Unlock()
		if waiter != nil {
			waiter <- got
			return true
		}
	}
	if got.Method == "event" && cap(c.events) > 0 {
		select {
		case c.events <- got.Params:
		default:
			c.fail(disconnected())
			return false
		}
	}
	return true
}

func (c *channel) fail(reason *Error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.failure == nil {
		c.failure = reason
		c.connection.Close()
		close(c.ended)
	}
}

// replace: new requests use another connection; this one ends after its last answer.
func (c *channel) replace() {
	c.lock.Lock()
	c.isReplaced = true
	isIdle := len(c.waiting) == 0
	c.lock.Unlock()
	if isIdle {
		c.fail(disconnected())
	}
}

func (c *channel) isOpen() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.failure == nil
}

// begin sends a request. Its answer arrives in the channel.
func (c *channel) begin(method string, params any) (uint64, chan *message, error) {
	// Before the lock; and the envelope without reflection.
	name, err := json.Marshal(method)
	if err != nil {
		return 0, nil, err
	}
	given, err := json.Marshal(params)
	if err != nil {
		return 0, nil, err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.failure != nil {
		return 0, nil, c.failure
	}
	if len(c.waiting) >= mostWaiting {
		return 0, nil, &Error{
			Reason: ReasonOverloaded, Message: "too many requests of this process wait", Hint: "Make fewer calls at once."}
	}
	c.last++
	line := make([]byte, 0, len(name)+len(given)+lineOverhead)
	line = strconv.AppendUint(append(line, `{"jsonrpc":"2.0","id":`...), c.last, 10)
	line = append(append(line, `,"method":`...), name...)
	line = append(append(append(line, `,"params":`...), given...), "}\n"...)
	c.connection.SetWriteDeadline(time.Now().Add(connectLimit))
	if _, err := c.connection.Write(line); err != nil {
		// Half of the line may have been sent: the goroutine that reads ends the connection.
		c.connection.Close()
		return 0, nil, disconnected()
	}
	answer := make(chan *message, 1)
	c.waiting[c.last] = answer
	return c.last, answer, nil
}

// exchange returns the result of a request.
func (c *channel) exchange(ctx context.Context, method string, params any, limit time.Duration) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id, answer, err := c.begin(method, params)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	defer c.forget(id)
	select {
	case got := <-answer:
		return got.result()
	case <-c.ended:
		select {
		case got := <-answer:
			return got.result()
		default:
			return nil, c.failure
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		// The broker ends each request by itself: this connection is of no use any more.
		c.fail(disconnected())
		return nil, late()
	}
}

func (c *channel) forget(id uint64) {
	c.lock.Lock()
	delete(c.waiting, id)
	isDone := c.isReplaced && len(c.waiting) == 0
	c.lock.Unlock()
	if isDone {
		c.fail(disconnected())
	}
}
