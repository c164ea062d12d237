// A resource server that validates JWT access tokens with oauth4webapi. The
// issuer is the argument. The library keeps the keys for five minutes; the
// requests that it sends are counted.
import * as oauth from 'oauth4webapi'
import { session } from './session.mjs'

let sent = 0
const counted = {
  [oauth.customFetch]: (...args) => {
    sent++
    return fetch(...args)
  },
}
const issuer = new URL(process.argv[2])
const as = await oauth.processDiscoveryResponse(
  issuer, await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...counted }))

await session({
  validate: ({ token, audience }) => oauth.validateJwtAccessToken(
    as, new Request(audience, { headers: { authorization: `Bearer ${token}` } }), audience, counted),
  sent: () => sent,
})
