// The OpenID Connect provider of npm's oidc-provider, with its development
// pages: any login is taken. It reads its configuration as JSON from standard
// input, and writes its issuer to standard output when it listens.
import { createServer } from 'node:http'
import { once } from 'node:events'
import { Provider } from 'oidc-provider'

let text = ''
for await (const chunk of process.stdin) {
  text += chunk
}
const { port, clients } = JSON.parse(text)

const server = createServer().listen(port, '127.0.0.1')
await once(server, 'listening')
const issuer = `http://127.0.0.1:${server.address().port}`
const provider = new Provider(issuer, {
  clients,
  pkce: { required: () => true },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  // Claims of the scopes are in the ID token, as most providers have them.
  conformIdTokenClaims: false,
  async findAccount(_, id) {
    return {
      accountId: id,
      claims: async () => ({ sub: id, name: `User ${id}`, email: `${id}@example.com`, email_verified: id !== 'mallory' }),
    }
  },
  cookies: { keys: ['a key of the tests'] },
})
server.on('request', provider.callback())
console.log(`issuer: ${issuer}`)
