// A confidential client that discovers, introspects and revokes with
// openid-client. The arguments are issuer, kind of discovery, client id,
// secret, and, if answers shall be signed, their algorithm.
import * as openid from 'openid-client'
import { session } from './session.mjs'

const [issuer, algorithm, id, secret, signed] = process.argv.slice(2)
const config = await openid.discovery(
  new URL(issuer), id, signed && { introspection_signed_response_alg: signed }, openid.ClientSecretBasic(secret), { algorithm })
openid.enableNonRepudiationChecks(config) // check the signature, beside TLS

await session({
  metadata: () => config.serverMetadata(),
  introspect: ({ token, hint }) => openid.tokenIntrospection(config, token, hint && { token_type_hint: hint }),
  revoke: ({ token, hint }) => openid.tokenRevocation(config, token, hint && { token_type_hint: hint }),
})
