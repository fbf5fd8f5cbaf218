// Reads operations on committed offsets, one JSON object a line, and says for each key whether they could have
// happened one after the other, each between its begin and its end: linearizability, decided by Porcupine.
//
// In:  {"key": "group/orders/0", "client": 1, "kind": "commit" or "fetch", "value": 7, "begin": 1, "end": 2}
//
//	begin and end in nanoseconds of one clock.
//
// Out: {"key": "group/orders/0", "operations": 12, "verdict": "Ok", "Illegal" or "Unknown"}, a line for each key.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const nothing = -1 // what a fetch gives where nothing was committed

type operation struct {
	Key    string `json:"key"`
	Client int    `json:"client"`
	Kind   string `json:"kind"`
	Value  int64  `json:"value"`
	Begin  int64  `json:"begin"`
	End    int64  `json:"end"`
}

type verdict struct {
	Key        string `json:"key"`
	Operations int    `json:"operations"`
	Verdict    string `json:"verdict"`
}

var offset = porcupine.Model{
	Init: func() any { return int64(nothing) },
	Step: func(state, input, output any) (bool, any) {
		if asked := input.(operation); asked.Kind == "commit" {
			return true, asked.Value
		}
		return output.(int64) == state.(int64), state
	},
}

func main() {
	byKey := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var one operation
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			log.Fatal(err)
		}
		byKey[one.Key] = append(byKey[one.Key], porcupine.Operation{
			ClientId: one.Client, Input: one, Call: one.Begin, Output: one.Value, Return: one.End,
		})
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	keys := make([]string, 0, len(byKey))
	for key := range byKey {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	out := json.NewEncoder(os.Stdout)
	for _, key := range keys {
		result := porcupine.CheckOperationsTimeout(offset, byKey[key], time.Minute)
		if err := out.Encode(verdict{key, len(byKey[key]), string(result)}); err != nil {
			log.Fatal(err)
		}
	}
}
