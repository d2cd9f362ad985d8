'use strict';

/** The part of S3 that the documents use: objects by path, and conditional writes (RFC 9110). */

const { createHash } = require('node:crypto');
const { once } = require('node:events');
const { createServer } = require('node:http');

/** @returns {string} an ETag as S3 computes it */
const tagOf = (body) => `"${createHash('md5').update(body).digest('hex')}"`;

/** @returns {Promise<{ url: string, close: () => void }>} */
async function startS3() {
  /** @type {Map<string, { body: Buffer, headers: Record<string, string> }>} */
  const objects = new Map();

  const refuse = (response, status, code) =>
    response
      .writeHead(status, { 'content-type': 'application/xml' })
      .end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`);

  const put = (key, request, body, response) => {
    const there = objects.get(key);
    const { 'if-match': match, 'if-none-match': none } = request.headers;
    if ((none === '*' && there) || (match && match !== there?.headers.etag)) {
      return refuse(response, 412, 'PreconditionFailed');
    }
    const metadata = Object.entries(request.headers).filter(([name]) =>
      name.startsWith('x-amz-meta'),
    );
    objects.set(key, { body, headers: { ...Object.fromEntries(metadata), etag: tagOf(body) } });
    return response.writeHead(200, { etag: tagOf(body) }).end();
  };

  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const key = new URL(request.url ?? '', 'http://s3').pathname;
    if (request.method === 'PUT') {
      return put(key, request, Buffer.concat(chunks), response);
    }
    const there = objects.get(key);
    if (!there) return refuse(response, 404, 'NoSuchKey');
    return response.writeHead(200, there.headers).end(there.body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  server.unref();
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${port}`, close };
}

module.exports = { startS3 };
