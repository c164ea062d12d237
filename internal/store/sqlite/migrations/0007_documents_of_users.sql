-- To see whether one of the users has changed, without reading them.
CREATE INDEX documents_of_users ON documents (kind, version) WHERE kind = 'user';
