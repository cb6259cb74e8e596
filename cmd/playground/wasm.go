//go:build js && wasm

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall/js"
)

// main gives a page the function handoff(what, arguments…), which returns JSON with either result or error.
// With the argument hashes, under node, it prints the hash of each run in its input.
func main() {
	debug.SetGCPercent(800) // as cmd/chaos does
	if len(os.Args) > 1 && os.Args[1] == "hashes" {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			hash, err := hashOf(lines.Text())
			if err != nil {
				fmt.Fprintln(os.Stderr, "playground:", err)
				os.Exit(2)
			}
			fmt.Println(lines.Text(), hash)
		}
		return
	}
	js.Global().Set("handoff", js.FuncOf(func(_ js.Value, args []js.Value) any { return serveCall(args) }))
	if ready := js.Global().Get("handoffReady"); ready.Type() == js.TypeFunction {
		ready.Invoke()
	}
	select {}
}

func serveCall(args []js.Value) string {
	type answer struct {
		Result any    `json:"result,omitempty"`
		Error  string `json:"error,omitempty"`
	}
	result, err := callFunction(args)
	out := answer{Result: result}
	if err != nil {
		out = answer{Error: err.Error()}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return `{"error": "the answer can't be written as JSON"}`
	}
	return string(text)
}

func callFunction(args []js.Value) (any, error) {
	switch what := args[0].String(); what {
	case "offer":
		return offeredChoices(), nil
	case "text":
		return textOf(args[1].String())
	case "look":
		return newView(args[1].String())
	case "move":
		return moveFault(args[1].String(), args[2].Int(), int64(args[3].Float()), int64(args[4].Float()))
	case "run":
		var seed uint64
		if _, err := fmt.Sscan(strings.TrimSpace(args[3].String()), &seed); err != nil {
			return nil, fmt.Errorf("the seed %q must be a number from 0", args[3].String())
		}
		return runScenario(args[1].String(), args[2].String(), seed, args[4].String())
	default:
		return nil, fmt.Errorf("nothing is called %q", what)
	}
}
