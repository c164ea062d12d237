// A program that answers commands on standard input, one JSON value a line:
// {"op": NAME, ...} becomes what the operation returns, or the library's error.
import { createInterface } from 'node:readline'

export async function session(operations) {
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line)
    let answer
    try {
      answer = { value: (await operations[command.op](command)) ?? null }
    } catch (e) {
      answer = { error: `${e.code ?? e.name}: ${e.message}`, status: e.status ?? e.cause?.status }
    }
    console.log(JSON.stringify(answer))
  }
}
